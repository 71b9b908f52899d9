"""LocalVectorEnv: many environments in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, TypeVar

from gymnasium.vector import AutoresetMode

from gym_llm.concurrency import wait
from gym_llm.engines.engine import Engine
from gym_llm.rollouts.env_slots import EnvSlots, StepResult
from gym_llm.rollouts.episode_worker import EpisodeWorker
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.rollouts.group_scores import refuse_single_episodes
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.scheduler import schedule
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.types import Rollout, Row
from gym_llm.vector.vector_env import BatchedVectorEnv

T = TypeVar("T")


class LocalVectorEnv(BatchedVectorEnv):
    """`num_envs` verifiers in this process and thread; async hooks of all of them wait at the same time.

    For laptops, debuggers, tests and sandboxes; `RayVectorEnv` is the same thing over many processes.

    Args:
        env_id: A registered id, or a factory that has been made already.
        num_envs: How many environments there are.
        tasks: See `VerifierEnv`; read once and shared by all.
        env_kwargs: Further arguments of each environment.
        env_wrappers: Wrappers of each environment, the first one innermost.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.
        batch_size: The default number of outcomes that `recv` waits for.
    """

    def __init__(
        self,
        env_id: str | EnvFactory,
        num_envs: int,
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        env_wrappers: Sequence[Wrap] = (),
        autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
        batch_size: int | None = None,
    ) -> None:
        factory = env_id if isinstance(env_id, EnvFactory) else EnvFactory(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self._env_id, self._scores_groups = factory.env_id, factory.scores_groups
        same_step = AutoresetMode(autoreset_mode) is AutoresetMode.SAME_STEP
        self._shard = EnvSlots(factory, num_envs, env_wrappers, same_step_reset=same_step)
        self._loop: asyncio.AbstractEventLoop | None = None
        # Under a running event loop (a notebook) all happens in one thread of our own: greenlets cannot change theirs.
        self._thread = ThreadPoolExecutor(1, "LocalVectorEnv") if asyncio._get_running_loop() else None
        first = self._shard.env(0)
        super().__init__(
            num_envs,
            observation_space=first.observation_space,
            action_space=first.action_space,
            metadata=first.metadata,
            autoreset_mode=autoreset_mode,
            batch_size=batch_size,
        )
        self.render_mode = first.render_mode

    async def rollout(
        self, engine: Engine, jobs: Iterable[Job], settings: RolloutSettings | None = None
    ) -> AsyncGenerator[Rollout, None]:
        """Play whole episodes in all environments; one that has finished takes the next job at once.

        Args:
            engine: A started engine.
            jobs: The episodes, taken as they are needed.
            settings: The method uses `seed`, `sampling`, `step_timeout` and `on_waiting`; this object has its own
                values of the others.

        Yields:
            Records in the order of finishing. No further episode starts until they are taken. Leaving the
            iteration early cancels the episodes under way. Not to be mixed with `step` or `send`.
        """
        self._check_open()
        refuse_single_episodes(self._env_id, self._scores_groups)
        settings = settings or RolloutSettings()
        async with (
            aclosing(EpisodeWorker(self._shard, engine, settings)) as worker,
            aclosing(schedule([worker], jobs, settings.on_waiting)) as records,
        ):
            async for record in records:
                yield record

    def close_extras(self, **_: Any) -> None:
        """Close every environment; what is under way is cancelled."""
        if self._thread is None and self._loop is not None and asyncio._get_running_loop():
            raise RuntimeError("This LocalVectorEnv was made outside the running event loop; close it outside, too.")
        self.closed = True
        self._run(self._shut)
        if self._thread is not None:
            self._thread.shutdown()

    def _call(self, slots: Sequence[int], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return self._run(lambda: self._shard.call(slots, name, args, kwargs))

    def _assign(self, name: str, values: Sequence[Any]) -> None:
        self._run(lambda: self._shard.assign(range(self.num_envs), name, values))

    def _submit(self, slots: Sequence[int], orders: Sequence[Any]) -> None:
        self._run(lambda: self._shard.submit(slots, orders))

    def _collect(self, at_least: int, at_most: int, timeout: float | None) -> list[StepResult]:
        if self._shard.ready < at_least:
            self._run(lambda: self._wait(at_least, timeout))
        return self._shard.take(at_most)

    def _wait(self, at_least: int, timeout: float | None) -> None:
        if asyncio._get_running_loop():
            raise RuntimeError("This LocalVectorEnv was made outside the running event loop; make it inside, too.")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            self._loop.run_until_complete(asyncio.wait_for(self._shard.wait_ready(at_least), timeout))
        except TimeoutError:
            pass  # fewer will do

    def _shut(self) -> None:
        if self._loop is None:  # nothing has waited yet: any event loop will do
            return wait(self._shard.aclose())
        try:
            self._loop.run_until_complete(self._shard.aclose())
        finally:
            self._loop.close()
            self._loop = None

    def _run(self, function: Callable[[], T]) -> T:
        return function() if self._thread is None else self._thread.submit(function).result()
