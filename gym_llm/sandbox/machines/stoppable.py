"""Work in threads that ends soon after its caller is cancelled: Python waits for threads before it exits."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import threading
from collections.abc import Callable
from typing import IO, TypeVar

_PAUSE_SECONDS = 0.05

Result = TypeVar("Result")


class Stopped(Exception):
    """Raised in a thread whose caller was cancelled."""


async def in_thread(function: Callable[[threading.Event], Result]) -> Result:
    """Call a function in a thread, with an event that is set when the caller is cancelled."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(function, stopped)
    finally:
        stopped.set()


def check(stopped: threading.Event | None) -> None:
    """Raise an error once an event is set.

    Raises:
        Stopped: If it is set.
    """
    if stopped is not None and stopped.is_set():
        raise Stopped


def take_lock(file: IO[bytes], kind: int, stopped: threading.Event | None) -> None:
    """Lock a file, once other processes allow it.

    Raises:
        Stopped: If the event is set before.
    """
    if stopped is None:
        fcntl.flock(file, kind)
        return
    check(stopped)
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return
        stopped.wait(_PAUSE_SECONDS)
        check(stopped)


class StoppableFile(io.FileIO):
    """A file that is read until an event is set.

    Args:
        path: Its path.
        stopped: The event.
    """

    def __init__(self, path: str, stopped: threading.Event | None) -> None:
        super().__init__(path)
        self._stopped = stopped

    def readinto(self, buffer: bytearray | memoryview) -> int | None:  # type: ignore[override]
        """Read some bytes."""
        check(self._stopped)
        return super().readinto(buffer)
