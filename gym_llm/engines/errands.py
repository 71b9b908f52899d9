"""Errands: work that an engine's worker thread does between two tokens, for callers on the event loop."""

from __future__ import annotations

import asyncio
import queue
from collections import deque
from collections.abc import Callable
from typing import Any

from gym_llm.engines.scores import Scores
from gym_llm.errors import EngineError
from gym_llm.records.failures import reason

BATCH_TOKENS = 16_384
"""Tokens that are scored together, padding included, at most: generation waits for so many."""

ScoreRows = Callable[[list[tuple[list[int], int]], str | None], list[Scores]]
"""Scores rows, each with the number of likeliest tokens that is asked for, by the model with an adapter, or alone."""


class Errands:
    """The work that waits for the worker thread. Callers add to it on the event loop, and the thread does it.

    Args:
        loop: The event loop.
        score_rows: Scores a batch, in the worker thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, score_rows: ScoreRows) -> None:
        self._loop, self._score_rows = loop, score_rows
        self._works: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]] = queue.SimpleQueue()
        self.scores: deque[tuple[list[int], int, str | None, asyncio.Future[Any]]] = deque()

    def add(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return a future of what a function returns in the worker thread."""
        future = self._loop.create_future()
        self._works.put((work, future))
        return future

    def score(self, row: list[int], top_k: int, adapter: str | None) -> asyncio.Future[Any]:
        """Return a future of a row's scores."""
        future = self._loop.create_future()
        self.scores.append((row, top_k, adapter, future))
        return future

    def run(self) -> None:
        """Do everything that waits, but of the rows no more than a batch.

        Raises:
            Exception: What a work raises, unless it is an `EngineError`: it may have left the model half changed.
        """
        while not self._works.empty():
            work, future = self._works.get()
            if (error := self._do(lambda work=work: [work()], [future])) is not None:  # type: ignore[misc]
                raise error
        batch: list[tuple[list[int], int]] = []
        futures: list[asyncio.Future[Any]] = []
        longest, adapter = 0, self.scores[0][2] if self.scores else None
        while self.scores and self.scores[0][2] == adapter:
            longest = max(longest, len(self.scores[0][0]))
            if batch and longest * (len(batch) + 1) > BATCH_TOKENS:
                break
            row, top_k, _, future = self.scores.popleft()
            if not future.cancelled():
                batch.append((row, top_k))
                futures.append(future)
        if batch:
            self._do(lambda: self._score_rows(batch, adapter), futures)

    def left(self) -> list[asyncio.Future[Any]]:
        """Return the futures of all that was not done, for a worker that has ended."""
        futures = []
        while not self._works.empty():
            futures.append(self._works.get()[1])
        while self.scores:
            futures.append(self.scores.popleft()[3])
        return futures

    def _do(self, work: Callable[[], list[Any]], futures: list[asyncio.Future[Any]]) -> Exception | None:
        """Do some work, and give the futures its results; return the exception that was not an `EngineError`."""
        failure: Exception | None = None
        try:
            results = work()
        except EngineError as error:
            results = [error] * len(futures)
        except Exception as error:  # torch's, such as a lack of memory
            failure = error
            results = [EngineError(f"The engine's worker failed: {reason(error)}")] * len(futures)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(resolve, list(zip(futures, results, strict=True)))
        return failure


def resolve(results: list[tuple[asyncio.Future[Any], Any]]) -> None:
    """Give futures their results, or the `EngineError` that came instead; called on their event loop."""
    for future, result in results:
        if not future.done():
            if isinstance(result, EngineError):
                future.set_exception(result)
            else:
                future.set_result(result)
