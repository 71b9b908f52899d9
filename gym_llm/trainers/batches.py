"""Playing batches of episodes from a trainer's synchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from gym_llm.engines.base import Engine
from gym_llm.types import Rollout
from gym_llm.vector.dispatch import dispatch
from gym_llm.vector.factory import EnvFactory, Wrap
from gym_llm.vector.plan import Job
from gym_llm.vector.player import Player
from gym_llm.vector.shard import Shard

T = TypeVar("T")


class BatchPlayer:
    """Plays one batch of episodes after the other; environments and engines live on between them.

    Everything runs in a thread with an event loop of its own, so that it makes no difference whether the caller's
    thread is running one (a notebook).

    Args:
        factory: Makes the environments.
        env_wrappers: What each is wrapped with, the first one innermost.
        concurrency: Episodes at once, at most.
    """

    def __init__(self, factory: EnvFactory, *, env_wrappers: Sequence[Wrap], concurrency: int) -> None:
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency is the number of episodes at once, 1 or more; got {concurrency!r}.")
        self._shard = Shard(factory, concurrency, env_wrappers)
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the player's event loop and wait for it; an interrupt cancels it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="gym_llm batches", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def play(
        self, jobs: Sequence[Job], engine: Engine, *, seed: int = 0, sampling: dict[str, Any] | None = None
    ) -> list[Rollout]:
        """Play episodes and wait for all of them.

        Args:
            jobs: All different.
            engine: Was started by `run(engine.start())`.
            seed: The run's seed.
            sampling: Request fields to set over the tasks' own.

        Returns:
            One record per job, in the order of the jobs.
        """
        return self.run(self._play(jobs, engine, seed, sampling))

    def close(self) -> None:
        """Close the environments and end the thread. Safe to call twice."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        loop.call_soon_threadsafe(self._shard.close)
        loop.call_soon_threadsafe(loop.stop)

    async def _play(
        self, jobs: Sequence[Job], engine: Engine, seed: int, sampling: dict[str, Any] | None
    ) -> list[Rollout]:
        player = Player(self._shard, engine, seed=seed, sampling=sampling)
        found: dict[tuple[int, ...], Rollout] = {}
        try:
            async with aclosing(dispatch([player], jobs)) as records:
                async for record in records:
                    found[tuple(record["rollout_id"].values())] = record  # type: ignore[arg-type]
        finally:
            await player.aclose()
        return [found[job] for job in jobs]
