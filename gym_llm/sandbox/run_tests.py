"""Runs the tests of one program, several at a time, up to the first that fails."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until_failure(
    test: Callable[[int], Awaitable[T]], count: int, failed: Callable[[T], bool], *, at_a_time: int
) -> list[T]:
    """Run tests 0, 1, … and return their results up to the first failure; later ones that have begun are cancelled.

    The first runs alone, and each pass lets one more run at a time: most programs that fail do so at once.

    Args:
        test: Runs a test by its number.
        count: How many there are.
        failed: Returns whether a result is a failure.
        at_a_time: The most that run at a time.
    """
    results: list[T] = []
    running: deque[asyncio.Future[T]] = deque()
    started = 0
    try:
        while len(results) < count:
            while started < count and len(running) < min(at_a_time, len(results) + 1):
                running.append(asyncio.ensure_future(test(started)))
                started += 1
            results.append(await running[0])
            running.popleft()
            if failed(results[-1]):
                break
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return results
