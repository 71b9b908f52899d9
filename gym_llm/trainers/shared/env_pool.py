"""EnvPool: the environments of a trainer, for single episodes and for batches, here or in Ray's worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

from gym_llm.concurrency.loop_thread import LoopThread
from gym_llm.core.step_clock import StepClock
from gym_llm.engines.engine import Engine
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.episode import play_episode
from gym_llm.rollouts.episode_worker import EpisodeWorker, with_retries
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.rollouts.group_scores import GroupScorer, check_plays_groups, refuse_single_episodes
from gym_llm.rollouts.made_by import made_by
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.player import player_of
from gym_llm.rollouts.scheduler import AnyWorker, schedule
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.trainers.shared.equal_rewards import EqualRewards
from gym_llm.types import MadeByKey, Rollout

if TYPE_CHECKING:
    from gym_llm.rollouts.ray.shard_client import RemoteShard, RemoteWorker

T = TypeVar("T")
_UNLIMITED = 2**31


class EnvPool:
    """Environments that live on between the episodes of a training.

    ```python
    pool = EnvPool(EnvFactory("gym_llm/Weather-v0"))
    record = await pool.play(job, engine)       # one episode, on the caller's event loop
    records = pool.play_all(jobs, engine)       # a batch, from synchronous code
    ```

    `play` and `play_all` are two ways of using a pool; a pool is used in one of them. With `workers` a pool plays
    batches only, in processes that start with the first batch. Each process gets a copy of the engine, which must not
    be started, and starts it. The copies live on as long as the engine and the settings stay the same.

    Args:
        factory: Makes the environments.
        env_wrappers: Wrappers of each environment, innermost first; None for `DEFAULT_WRAPPERS`.
        concurrency: Episodes at once in a batch, in all processes together; None if only `play` is used.
        workers: Number of processes; 0 for this process.
        ray_address: A cluster's address; None to start Ray on this machine.

    Raises:
        ValueError: If `concurrency` or `workers` is invalid.
        UsageError: If the verifier scores groups, and the pool plays single episodes (`concurrency` is None), or a
            wrapper changes rewards.
    """

    def __init__(
        self,
        factory: EnvFactory,
        env_wrappers: Sequence[Wrap] | None = None,
        *,
        concurrency: int | None = None,
        workers: int = 0,
        ray_address: str | None = None,
    ) -> None:
        if concurrency is not None and (not isinstance(concurrency, int) or concurrency < 1):
            raise ValueError(f"concurrency is the number of episodes at once, 1 or more; got {concurrency!r}.")
        if not isinstance(workers, int) or workers < 0:
            raise ValueError(f"workers is the number of processes to play in, 0 for this one alone; got {workers!r}.")
        wrappers = DEFAULT_WRAPPERS if env_wrappers is None else tuple(env_wrappers)
        if factory.scores_groups:
            refuse_single_episodes(factory.env_id, concurrency is None)
            check_plays_groups(factory, wrappers)
        self._factory = factory
        self._slots = EnvSlots(factory, concurrency or _UNLIMITED, wrappers)
        self._free: list[int] = []
        self._made = 0
        self._equal_rewards = EqualRewards()
        self._made_by: tuple[Engine, RolloutSettings, MadeByKey] | None = None
        self._clocks: dict[float, StepClock] = {}
        self._thread = LoopThread("gym_llm batches")
        self._shards = _Shards(factory, wrappers, concurrency or workers, workers, ray_address) if workers else None

    @property
    def is_remote(self) -> bool:
        """Whether batches are played in Ray's worker processes."""
        return self._shards is not None

    # -- single episodes -------------------------------------------------------------------------------------------

    async def play(self, job: Job, engine: Engine, settings: RolloutSettings | None = None) -> Rollout:
        """Play one episode with a started engine, on the running event loop. Cancelling it ends the episode.

        Returns:
            The record. If the episode fails it is masked, and nothing is raised.
        """
        settings = settings or RolloutSettings()
        clock = None
        if (seconds := settings.step_timeout) is not None:
            clock = self._clocks.setdefault(seconds, StepClock(seconds))
        if self._free:
            slot = self._free.pop()
        else:
            slot, self._made = self._made, self._made + 1
        try:
            env = self._slots.env(slot)
            playing = player_of(engine, settings, lambda: env)
            async with nullcontext(engine) if playing is engine else playing as player:
                record = await with_retries(
                    lambda: play_episode(env, player, job, settings, clock=clock), retries=settings.retries
                )
        finally:
            self._free.append(slot)
        record["made_by"] = self._key(engine, settings)
        self._equal_rewards.add(job.task_index, record["reward"])
        return record

    async def aclose(self) -> None:
        """Close the environments of `play`, when no episode is under way."""
        self._free, self._made = [], 0
        await self._slots.aclose()

    # -- batches ---------------------------------------------------------------------------------------------------

    def play_all(self, jobs: Sequence[Job], engine: Engine, settings: RolloutSettings | None = None) -> list[Rollout]:
        """Play different jobs, and wait for them in synchronous code.

        Args:
            jobs: The episodes. Where a verifier scores groups, those of one task are a group.
            engine: A started engine (`pool.run(engine.start())`); one that is not started if the pool has `workers`.
            settings: How the episodes are played.

        Returns:
            One record per job, in the order of the jobs.
        """
        settings = settings or RolloutSettings()
        records = self.run(self._play_all(jobs, engine, settings))
        key = self._key(engine, settings)
        for record in records:
            record["made_by"] = key
        tasks = (job.task_index for job in jobs)
        self._equal_rewards.add_batch(zip(tasks, (record["reward"] for record in records), strict=True))
        return records

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the batches and wait for its end; an interrupt cancels it first."""
        return self._thread.run(work)

    def close(self) -> None:
        """Close the environments of `play_all`, and end its thread and processes. Safe to call twice."""
        if self._thread.is_running:
            try:
                self.run(self._close_all())
            finally:
                self._thread.close()

    def _key(self, engine: Engine, settings: RolloutSettings) -> MadeByKey:
        """The `made_by` of records; computed again where the engine or the settings are others."""
        if self._made_by is None or self._made_by[0] is not engine or self._made_by[1] != settings:
            self._made_by = engine, settings, cast(MadeByKey, made_by(self._factory, engine, None, settings).key)
        return self._made_by[2]

    async def _play_all(self, jobs: Sequence[Job], engine: Engine, settings: RolloutSettings) -> list[Rollout]:
        groups: dict[int, list[int]] = {}
        if self._factory.scores_groups:
            for number, job in enumerate(jobs):
                groups.setdefault(job.task_index, []).append(number)
            refuse_single_episodes(self._factory.env_id, any(len(group) < 2 for group in groups.values()))
        if self._shards is not None:
            records = await self._shards.play(jobs, engine, settings)
        else:
            async with aclosing(EpisodeWorker(self._slots, engine, settings)) as worker:
                records = await _in_order([worker], jobs)
        if groups:
            options: dict[str, Any] = {"step_timeout": settings.step_timeout, "retries": settings.retries}
            async with aclosing(GroupScorer(self._factory, **options)) as scorer, asyncio.TaskGroup() as tasks:
                for group in groups.values():
                    tasks.create_task(scorer.score_in_place([records[number] for number in group]))
        return records

    async def _close_all(self) -> None:
        if self._shards is not None:
            await self._shards.aclose()
        await self.aclose()


class _Shards:
    """Ray's worker processes of a pool."""

    def __init__(
        self, factory: EnvFactory, wrappers: Sequence[Wrap], concurrency: int, workers: int, ray_address: str | None
    ) -> None:
        from gym_llm.rollouts.ray.shard_actor import ShardConfig

        self._config = ShardConfig.of(
            **factory.arguments,
            num_envs=concurrency,
            env_wrappers=tuple(wrappers),
            step_timeout=RolloutSettings.step_timeout,
        )
        self._count = min(workers, concurrency)
        self._ray_address = ray_address
        self._shards: list[RemoteShard] = []
        self._workers: list[RemoteWorker] = []
        self._arguments: tuple[Engine, RolloutSettings] | None = None

    async def play(self, jobs: Sequence[Job], engine: Engine, settings: RolloutSettings) -> list[Rollout]:
        try:
            return await _in_order(await self._ready(engine, settings), jobs)
        except BaseException:
            await self._stop()
            raise

    async def aclose(self) -> None:
        from gym_llm.rollouts.ray.shard_client import close_shards, end_shards

        await self._stop()
        shards, self._shards = self._shards, []
        if shards:
            close_shards(shards)
            end_shards(shards)

    async def _ready(self, engine: Engine, settings: RolloutSettings) -> list[RemoteWorker]:
        from gym_llm.rollouts.ray.shard_client import RemoteWorker, start_shards

        if self._shards and not self._shards[0].watch.is_here():
            self._shards, self._arguments = [], None
        if not self._shards:
            self._shards = start_shards(self._config, self._count, runtime_env=None, ray_address=self._ray_address)
        if self._arguments is None or self._arguments[0] is not engine or self._arguments[1] != settings:
            self._arguments = engine, settings
            self._workers = [RemoteWorker(shard, (engine, {}, settings.for_workers())) for shard in self._shards]
            await asyncio.gather(*(worker.start() for worker in self._workers))
        return self._workers

    async def _stop(self) -> None:
        workers, self._workers, self._arguments = self._workers, [], None
        await asyncio.gather(*(worker.aclose() for worker in workers), return_exceptions=True)


async def _in_order(workers: Sequence[AnyWorker], jobs: Sequence[Job]) -> list[Rollout]:
    async with aclosing(schedule(workers, jobs)) as records:
        by_job: dict[tuple[Any, ...], Rollout] = {
            tuple(record["rollout_id"].values()): record async for record in records
        }
    return [by_job[job] for job in jobs]
