"""ServerMemory: what the large requests and the sessions of a server's process hold together, with one limit."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextvars import ContextVar
from time import monotonic
from typing import Any
from weakref import WeakSet

from gym_llm.errors import InfrastructureError
from gym_llm.utils.limits import SERVER_BYTES, limit

_WAIT_SECONDS, _LOOK_SECONDS = 10.0, 0.02
_ENTRY_BYTES = 1 << 14
_TRIM_BYTES = 1 << 22
_TRIM_SECONDS = 1.0


class ServerBusy(InfrastructureError):
    """Raised when a server's process has no memory left for a large request: try again later."""

    failure_kind = "provider_quota_exhausted"


class ServerMemory:
    """An account of bytes, in estimates: a JSON value is counted with the bytes of its object.

    A body waits for its bytes before it is read, so its sender waits, too. What is made of it is counted afterwards.
    If the account is overdrawn, the owners of sessions (`holders`) end the sessions that hold most.

    Attributes:
        used: The bytes that are held now.
        holders: Objects whose `relieve(needed)` ends sessions until there is room for `needed` bytes.
    """

    def __init__(self) -> None:
        self.used = 0
        self.holders: WeakSet[Any] = WeakSet()
        self._lock = threading.Lock()  # a process may have servers in several event loops
        self._freed = 0
        self._trim_waits = False

    @property
    def is_overdrawn(self) -> bool:
        """Whether more is held than the limit allows."""
        return self.used > limit(SERVER_BYTES)

    def has_room(self, count: int) -> bool:
        """Whether some more bytes are within the limit, if need be after sessions have ended."""
        if self.used + count > limit(SERVER_BYTES):
            self._relieve(count)
        return self.used + count <= limit(SERVER_BYTES)

    async def reserve(self, count: int) -> None:
        """Wait until there is room for some more bytes, and count them.

        Raises:
            ServerBusy: If no room is found within seconds.
        """
        until = monotonic() + _WAIT_SECONDS
        while not self.has_room(count):
            if monotonic() > until:
                raise ServerBusy("The server has no memory left for a request of this size: try again later.")
            await asyncio.sleep(_LOOK_SECONDS)
        self.add(count)

    def add(self, count: int) -> None:
        """Count bytes that are there already."""
        with self._lock:
            self.used += count
        if self.is_overdrawn:
            self._relieve(0)

    def release(self, count: int) -> None:
        """Give bytes back; the allocator gives what is free back to the system, a moment later."""
        with self._lock:
            self.used -= count
            self._freed += count
            if self._freed < _TRIM_BYTES or self._trim_waits:
                return
            self._freed, self._trim_waits = 0, True
        timer = threading.Timer(_TRIM_SECONDS, self._trim)  # by then the last reference to it is gone
        timer.daemon = True
        timer.start()

    def _trim(self) -> None:
        trim()
        self._trim_waits = False
        self.release(0)  # what was released meanwhile may still have had references

    def _relieve(self, needed: int) -> None:
        for holder in list(self.holders):
            holder.relieve(needed)


def _find_trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # not glibc
        return None
    return found


def trim() -> None:
    """Give free memory back to the system: glibc keeps what lies between two blocks that are in use."""
    if (give_back := _find_trim()) is not None:
        give_back(0)


MEMORY = ServerMemory()
"""The account of this process."""


class Holding:
    """A session's part of the account. Small amounts are entered together, because an entry takes a microsecond.

    Attributes:
        size: The estimate in bytes.
    """

    __slots__ = ("_entered", "size")

    def __init__(self) -> None:
        self.size = self._entered = 0

    def add(self, count: int) -> None:
        """Count bytes that the session has received."""
        self.size += count
        if self.size > self._entered + _ENTRY_BYTES:
            count, self._entered = self.size - self._entered, self.size
            MEMORY.add(count)

    def take(self, *, anew: bool) -> None:
        """Count the request or message under way, once; `anew` if nothing before it is kept."""
        if size := REQUEST_SIZE.get():
            REQUEST_SIZE.set(0)
            if anew:
                self.clear()
            self.add(size)

    def clear(self) -> None:
        """Give all back: the session's episode is over."""
        self.size = 0
        if self._entered:
            count, self._entered = self._entered, 0
            MEMORY.release(count)


REQUEST_SIZE: ContextVar[int] = ContextVar("request_size", default=0)
"""The estimated bytes of the request or message under way, until a session has taken them over."""
