"""ShardActor: a worker process with many environments. `RemoteShard` is its client.

The protocol of single steps is one call, `submit_and_poll(orders, at_least)`:

1. The actor submits the orders, and then waits until `at_least` results are ready or no slot is busy.
2. With `at_least=0` it returns at once with the results that are ready. Without orders the call is a poll.
3. A new call releases the poll that waits, with the results so far, so at most one call waits in here.
4. Results that no call has returned yet stay in the slots' queue for the next call.

Whole episodes use `play`: it submits jobs and returns all finished ones as soon as there is one.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from gymnasium.envs.registration import EnvSpec

from gym_llm.concurrency import drive
from gym_llm.concurrency.relaxed_gc import relax_gc
from gym_llm.core.registry.env_files import env_spec
from gym_llm.data.files.reading import absolute_source
from gym_llm.engines import make_engine
from gym_llm.engines.engine import Engine
from gym_llm.errors import StepTimeout
from gym_llm.records.failures import reason
from gym_llm.records.record import lost_record
from gym_llm.rollouts.env_slots import EnvSlots, StepResult
from gym_llm.rollouts.episode_worker import EpisodeWorker
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray.codec import Sender, pickle_each
from gym_llm.rollouts.ray.loop_watchdog import LoopWatchdog
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.types import Rollout, Row
from gym_llm.utils.secrets import redact_streams

_PackedResult: TypeAlias = tuple[Any, ...]
"""The fields of an `StepResult` with the observations packed."""


@dataclass(frozen=True)
class ShardConfig:
    """The arguments of a shard; see `RayVectorEnv`."""

    spec: EnvSpec  # not the id: other processes do not know what this one registered
    num_envs: int
    tasks: str | list[Row] | None = None
    env_kwargs: dict[str, Any] | None = None
    env_wrappers: tuple[Wrap, ...] = ()
    same_step_reset: bool = False
    step_timeout: float | None = None
    environment: dict[str, str] | None = None  # variables that Ray must not see: it writes them into its logs

    @classmethod
    def of(cls, env_id: str | EnvSpec, num_envs: int, *, tasks: str | list[Row] | None, **more: Any) -> ShardConfig:
        """The recipe for an id, with whatever a process elsewhere cannot look up."""
        spec = env_spec(env_id)
        # The shards run in folders of Ray's.
        return cls(spec, num_envs, absolute_source(tasks) if isinstance(tasks, str) else tasks, **more)


class ShardActor:
    """A shard in a process of its own (an async Ray actor). Batches come and go pickled: Ray then only moves bytes."""

    def __init__(self, recipe: ShardConfig) -> None:
        relax_gc()
        os.environ.update(recipe.environment or {})
        redact_streams()
        self._recipe = recipe
        self._senders = [Sender() for _ in range(recipe.num_envs)]
        self._engine: Engine | None = None
        self._worker: EpisodeWorker | None = None
        self._watchdog: LoopWatchdog | None = None
        self._ending = asyncio.Lock()

    @cached_property
    def _shard(self) -> EnvSlots:
        # Not made by the constructor: what that raises Ray turns into a text.
        recipe = self._recipe
        shard = EnvSlots(
            EnvFactory(recipe.spec, tasks=recipe.tasks, env_kwargs=recipe.env_kwargs),
            recipe.num_envs,
            recipe.env_wrappers,
            same_step_reset=recipe.same_step_reset,
            step_timeout=recipe.step_timeout,
        )
        if recipe.step_timeout is not None:
            self._watchdog = LoopWatchdog(recipe.step_timeout, StepTimeout, EnvSlots.perform)
            self._watchdog.start()
        return shard

    async def describe(self) -> dict[str, Any]:
        """Spaces, metadata and render mode of an environment, whether it scores groups, and the process's number."""
        env = self._shard.env(0)
        names = ("observation_space", "action_space", "metadata", "render_mode")
        scores_groups = env.unwrapped.scores_groups  # type: ignore[attr-defined]
        return {**{name: getattr(env, name) for name in names}, "scores_groups": scores_groups, "pid": os.getpid()}

    async def submit_and_poll(self, batch: bytes, at_least: int) -> bytes:
        """Take orders (a pickled pair of slots and orders), and give back outcomes (a pickled list); see above."""
        slots, orders = pickle.loads(batch)
        shard = self._shard
        shard.submit(slots, orders)
        await shard.wait_ready(at_least)
        return pickle_each([self._pack(outcome) for outcome in shard.take()], _unsendable_result)

    async def call(
        self, slots: Sequence[int], name: str, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Call a method, or get an attribute, of some environments."""
        return await drive(self._shard.call, slots, name, args, kwargs)

    async def assign(self, slots: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of some environments, each to its own value."""
        self._shard.assign(slots, name, values)

    async def start_rollout(
        self,
        engine: str | Engine,
        engine_options: dict[str, Any],
        settings: RolloutSettings,
    ) -> None:
        """Make an engine client of this process's own, or take the one that has come, and get ready to play with it."""
        async with self._ending:
            await self._end_rollout()
            self._engine = make_engine(engine, **engine_options) if isinstance(engine, str) else engine
            if self._watchdog is not None:
                self._watchdog.sleep()  # loading a model takes as long as it takes
            try:
                await self._engine.start()
            finally:
                if self._watchdog is not None:
                    self._watchdog.wake()
            settings = replace(settings, step_timeout=self._recipe.step_timeout)
            self._worker = EpisodeWorker(self._shard, self._engine, settings)

    async def play(self, jobs: bytes) -> bytes:
        """See `EpisodeWorker.submit_and_poll`. `jobs` is pickled: new jobs, and those whose records are written."""
        assert self._worker is not None, "play before start_rollout"
        new, recorded = pickle.loads(jobs)
        for job in recorded:
            self._worker.recorded(job)
        return pickle_each(await self._worker.submit_and_poll(new), self._unsendable_record)

    async def release(self) -> None:
        """See `EpisodeWorker.release`."""
        if self._worker is not None:
            self._worker.release()

    async def waiting(self) -> dict[str, int]:
        """See `EpisodeWorker.waiting`."""
        return await self._worker.waiting() if self._worker is not None else {}

    async def end_rollout(self) -> None:
        """Cancel what is under way and close the engine client."""
        async with self._ending:  # a driver that was cut off while it waited for this may be playing again already
            await self._end_rollout()

    async def _end_rollout(self) -> None:
        if self._worker is not None:
            await self._worker.aclose()
        if self._engine is not None:
            await self._engine.aclose()
        self._worker = self._engine = None

    async def close(self) -> None:
        """Close every environment."""
        await self.end_rollout()
        if self._watchdog is not None:
            self._watchdog.stop()
        await self._shard.aclose()

    def _unsendable_record(self, finished: tuple[Job, Rollout], error: Exception) -> tuple[Job, Rollout]:
        sentence = f"The episode's record cannot be sent to another process: {error}"
        return finished[0], lost_record(self._recipe.spec.id, finished[0], sentence, "agent_run_error")

    def _pack(self, outcome: StepResult) -> _PackedResult:
        slot, observation, reward, terminated, truncated, info, final, error = outcome
        if error is not None:
            return (slot, None, 0.0, False, False, {}, None, _portable(error))
        sender = self._senders[slot]
        packed_final = None if final is None else (sender.pack(final[0]), final[1])
        return (slot, sender.pack(observation), reward, terminated, truncated, info, packed_final, None)


def _portable(error: BaseException) -> BaseException:
    """The error itself where it survives pickling, else one that says the same; with its traceback as a note."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    error.add_note(f"It was raised in a shard's process:\n{trace}")
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:  # exceptions with constructor arguments of their own commonly fail
        return RuntimeError(f"{reason(error)}\n{trace}")


def _unsendable_result(outcome: _PackedResult, error: Exception) -> _PackedResult:
    sentence = f"What the environment returned cannot be sent to another process: {error}"
    return (outcome[0], None, 0.0, False, False, {}, None, TypeError(sentence))
