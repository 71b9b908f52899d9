"""How much memory the sessions of a sandbox may hold together while nothing runs in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from gym_llm.sandbox.python_session import PythonSession

_SHARE = 2  # one part of so many is for sessions that wait; the others are for what runs, and for everybody else
_CGROUPS = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))


class SessionMemory:
    """Ends the session that holds most when all that wait hold more than they may.

    A session's limit is its own, and one that waits takes no slot of the sandbox's: without this, enough of them would
    take all of a machine's memory.

    Args:
        most: Bytes of all together; None for half of what is available now.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = available() // _SHARE if most is None else most
        self._held: WeakKeyDictionary[PythonSession, int] = WeakKeyDictionary()

    def forget(self, session: PythonSession) -> None:
        """It runs, or has ended."""
        self._held.pop(session, None)

    async def wait(self, session: PythonSession, held: int) -> None:
        """It has run, holds so many bytes and waits; it may be the one that is ended."""
        self._held[session] = held
        while sum(self._held.values()) > self.most:
            largest = max(self._held, key=self._held.__getitem__)
            self.forget(largest)
            await largest.evict()


def available() -> int:
    """Bytes of memory that this process may still count on: of the machine, or of its control group."""
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
    """Where this process is in the trees of control groups."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            fields = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    return [path for _, kinds, path in fields if kinds in ("", "memory")]
