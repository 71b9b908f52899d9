"""Batches of episodes in Ray's worker processes, from a trainer's synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gym_llm.engines.engine import Engine
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray.shard_actor import ShardConfig
from gym_llm.rollouts.ray.shard_client import RemoteShard, RemoteWorker, close_shards, end_shards, start_shards
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.trainers.shared.batches import BatchPlayer, in_order
from gym_llm.types import Rollout


class RayBatchPlayer(BatchPlayer):
    """A `BatchPlayer` whose environments are in other processes, which start with the first batch and live on.

    `play` takes an engine that is not started: each process gets a copy, and starts it. The copies live on, too, for as
    long as the engine and the settings are the same.

    Args:
        factory: What the environments are made like.
        env_wrappers: What each is wrapped with, innermost first.
        concurrency: Episodes at once, in all processes together.
        workers: How many processes.
        ray_address: A cluster's; None for a Ray of this machine's own.
    """

    def __init__(
        self,
        factory: EnvFactory,
        *,
        env_wrappers: Sequence[Wrap],
        concurrency: int,
        workers: int,
        ray_address: str | None = None,
    ) -> None:
        super().__init__(factory, env_wrappers=env_wrappers, concurrency=concurrency)
        if not isinstance(workers, int) or workers < 1:
            raise ValueError(f"workers is the number of processes to play in, 0 for this one alone; got {workers!r}.")
        step_timeout = RolloutSettings.step_timeout
        self._recipe = ShardConfig.of(
            **factory.arguments, num_envs=concurrency, env_wrappers=tuple(env_wrappers), step_timeout=step_timeout
        )
        self._count = min(workers, concurrency)
        self._ray_address = ray_address
        self._shards: list[RemoteShard] = []
        self._workers: list[RemoteWorker] = []
        self._arguments: tuple[Engine, RolloutSettings] | None = None

    async def _play(self, jobs: Sequence[Job], engine: Engine, settings: RolloutSettings) -> list[Rollout]:
        try:
            return await in_order(await self._ready(engine, settings), jobs)
        except BaseException:
            await self._stop()
            raise

    async def _ready(self, engine: Engine, settings: RolloutSettings) -> list[RemoteWorker]:
        if self._shards and not self._shards[0].watch.is_here():
            self._shards, self._arguments = [], None
        if not self._shards:
            self._shards = start_shards(self._recipe, self._count, runtime_env=None, ray_address=self._ray_address)
        if self._arguments is None or self._arguments[0] is not engine or self._arguments[1] != settings:
            self._arguments = engine, settings
            self._workers = [RemoteWorker(shard, (engine, {}, settings.for_workers())) for shard in self._shards]
            await asyncio.gather(*(worker.start() for worker in self._workers))
        return self._workers

    async def _stop(self) -> None:
        """Cancel what is under way."""
        workers, self._workers, self._arguments = self._workers, [], None
        await asyncio.gather(*(worker.aclose() for worker in workers), return_exceptions=True)

    async def _aclose(self) -> None:
        await self._stop()
        shards, self._shards = self._shards, []
        if shards:
            close_shards(shards)
            end_shards(shards)
        await super()._aclose()
