"""Telling somebody once a second what the episodes of a run wait for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from gym_llm.rollout.scheduler import AnyWorker

_PERIOD = 1.0  # seconds


@asynccontextmanager
async def report_waiting(
    workers: Sequence[AnyWorker], tell: Callable[[dict[str, int]], None] | None
) -> AsyncGenerator[None, None]:
    """While the block runs, count what the workers' episodes wait for and tell it.

    Args:
        workers: Who plays; see `Worker.waiting`.
        tell: Is given the counts; None to do without.
    """
    if tell is None:
        yield
        return

    async def watch() -> None:
        while True:
            await asyncio.sleep(_PERIOD)
            total: Counter[str] = Counter()
            for count in await asyncio.gather(*(worker.waiting() for worker in workers)):
                total.update(count)
            tell(total)

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
