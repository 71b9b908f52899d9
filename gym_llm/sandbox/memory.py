"""A bound on the memory that the idle sessions of a sandbox hold together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from gym_llm.sandbox.python_session import PythonSession

_SHARE = 2  # the part of the memory for idle sessions: one of this many
_CGROUPS = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))


class SessionMemory:
    """A limit for the memory of all idle sessions; beyond it, the largest session is ended.

    Each session has its own limit, but an idle one takes no slot of the sandbox. Without this limit, many idle sessions
    could take all memory of a machine.

    Args:
        most: Bytes of all sessions together; None for half of the memory available now.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = available() // _SHARE if most is None else most
        self._held: WeakKeyDictionary[PythonSession, int] = WeakKeyDictionary()

    def forget(self, session: PythonSession) -> None:
        """Note that a session runs, or has ended."""
        self._held.pop(session, None)

    async def wait(self, session: PythonSession, held: int) -> None:
        """Note that a session is idle and holds these bytes; end the largest ones if that is too much."""
        self._held[session] = held
        while sum(self._held.values()) > self.most:
            largest = max(self._held, key=self._held.__getitem__)
            self.forget(largest)
            await largest.evict()


def available() -> int:
    """Return the bytes of memory that this process can still use: of the machine, or of its control group."""
    with open("/proc/meminfo", "rb") as file:
        lines = dict(line.split(b":", 1) for line in file)
    least = int(lines[b"MemAvailable"].split()[0]) * 1024
    for folder, name in _CGROUPS:
        for group in ("", *_groups()):
            try:
                with open(os.path.join(folder + group, name), "rb") as file:
                    said = file.read().strip()
            except OSError:
                continue
            if said.isdigit():
                least = min(least, int(said))
    return least


def _groups() -> list[str]:
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            fields = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    return [path for _, kinds, path in fields if kinds in ("", "memory")]
