"""A thread with an event loop of its own, for asynchronous work that a trainer's synchronous code asks for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines; it makes no difference whether the caller's thread is running a loop (a notebook).

    The thread begins with the first coroutine, and after `close` another one with the next.

    Args:
        name: The thread's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread

    @property
    def is_running(self) -> bool:
        """Whether there is a thread."""
        return self._loop is not None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its end; an interrupt cancels it first."""
        loop, tasks, ended = self._running(), list[asyncio.Task[T]](), threading.Event()

        def begin() -> None:
            tasks.append(loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        loop.call_soon_threadsafe(begin)
        try:
            ended.wait()
        except BaseException:
            # What comes next may use the same things again: they have to be left alone first.
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            ended.wait()
            raise
        return tasks[0].result()

    def close(self) -> None:
        """End the thread, when nothing runs in it any more. Safe to call twice."""
        if self._loop is None:
            return
        loop, self._loop = self._loop, None
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop
