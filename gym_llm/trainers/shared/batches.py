"""Playing batches of episodes from a trainer's synchronous code."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from gym_llm.engines.engine import Engine
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.episode_worker import EpisodeWorker
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.scheduler import AnyWorker, schedule
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.trainers.shared.loop_thread import LoopThread
from gym_llm.types import Rollout
from gym_llm.utils.secrets import redacted_logger

T = TypeVar("T")
logger = redacted_logger(__name__)

LOST_BATCHES = 3
"""Batches in a row in which every episode failed that end a training."""


class BatchPlayer:
    """Plays one batch of episodes after the other; environments and engines live on between them.

    Everything runs in a `LoopThread`.
    """

    def __init__(self, factory: EnvFactory, *, env_wrappers: Sequence[Wrap], concurrency: int) -> None:
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency is the number of episodes at once, 1 or more; got {concurrency!r}.")
        self._shard = EnvSlots(factory, concurrency, env_wrappers)
        self._thread = LoopThread("gym_llm batches")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the player's event loop and wait for its end; an interrupt cancels it first."""
        return self._thread.run(work)

    def play(self, jobs: Sequence[Job], engine: Engine, settings: RolloutSettings | None = None) -> list[Rollout]:
        """Play different jobs with a started engine (`run(engine.start())`); one record per job, in their order."""
        return self.run(self._play(jobs, engine, settings or RolloutSettings()))

    def close(self) -> None:
        """Close the environments and end the thread. Safe to call twice."""
        if self._thread.is_running:
            try:
                self.run(self._aclose())
            finally:
                self._thread.close()

    async def _play(self, jobs: Sequence[Job], engine: Engine, settings: RolloutSettings) -> list[Rollout]:
        async with aclosing(EpisodeWorker(self._shard, engine, settings)) as worker:
            return await in_order([worker], jobs)

    async def _aclose(self) -> None:
        await self._shard.aclose()


async def in_order(workers: Sequence[AnyWorker], jobs: Sequence[Job]) -> list[Rollout]:
    """Have workers play different jobs; one record per job, in their order."""
    async with aclosing(schedule(workers, jobs)) as records:
        by_job: dict[tuple[Any, ...], Rollout] = {
            tuple(record["rollout_id"].values()): record async for record in records
        }
    return [by_job[job] for job in jobs]


class Failures:
    """The rule for failed episodes: a broken task does not end a training, a broken set-up does.

    Args:
        noun: The noun for a batch in messages.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._has_worked = False
        self._lost_batches = 0

    def check(self, errors: Sequence[str | None]) -> None:
        """Look at each episode's error, `None` if it did not fail; the log says how the first one failed.

        Raises:
            RuntimeError: If all failed, and nothing ever worked or `LOST_BATCHES` batches in a row have failed.
        """
        failures = [error for error in errors if error is not None]
        if len(failures) < len(errors):
            self._has_worked, self._lost_batches = True, 0
        elif failures:
            self._lost_batches += 1
            if not self._has_worked or self._lost_batches == LOST_BATCHES:
                self._lost_batches = 0
                raise RuntimeError(f"Every {self._noun} of this batch failed, the first one so: {failures[0]}")
        if failures:
            counts = f"{len(failures)} of {len(errors)} {self._noun}s"
            logger.warning("%s failed, the first one so: %s", counts, failures[0])
