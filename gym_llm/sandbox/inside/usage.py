"""What the processes of a run take together, as the kernel tells it."""

from __future__ import annotations

import os
import resource
import time
from typing import Any

_CLOCK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LONG = 10  # times its processor time, and what it may sleep: a run ends then, whatever it is doing
_SHARED = 8  # times the limit: more than that is not taken for memory that processes share
_FREE_FILES = 16  # open files of a process that are not counted as memory
_FILE_BYTES = 425984  # what a socket keeps for its reader at most (net.core.wmem_max, as Linux counts it)


class Use:
    """What a run has used, and how much of it before the present cell.

    Args:
        alone: Whether all processes that there are, but number 1, are the run's: it has a namespace of its own.
        reserves: Whether its address space is not limited.
    """

    def __init__(self, alone: bool, reserves: bool) -> None:
        self.alone = alone
        self.reserves = reserves
        self.seconds = 0.0  # of processor time
        self.asleep = 0.0  # seconds in which none of its processes did, or wanted to do, anything
        self.peak = 0  # bytes
        self.base = 0.0
        self.begin(0.0)

    def begin(self, seconds: float) -> None:
        """From here on, after so many seconds of processor time, it is the next cell's."""
        self.base = seconds
        self.asleep, self.seconds = 0.0, 0.0
        self.started = self.looked = time.monotonic()

    def look(self, child: int, limits: dict[str, Any]) -> str | None:
        """The limit that all processes together have passed, or None.

        Args:
            child: The first of them.
            limits: What they may take.
        """
        now = time.monotonic()
        seconds, memory, count, wants = self.now(child, limits)
        self.peak = max(self.peak, memory)
        if not wants:
            self.asleep += max(0.0, now - self.looked - max(0.0, seconds - self.base - self.seconds))
        self.looked = now
        self.seconds = max(self.seconds, seconds - self.base)
        if self.seconds > limits["cpu_seconds"]:
            return "cpu"
        if self.asleep > limits["wall_seconds"]:
            return "wall"
        if now - self.started > _LONG * (limits["cpu_seconds"] + limits["wall_seconds"]):
            return "wall"
        if memory > limits["memory_bytes"]:
            return "memory"
        if count > limits["processes"]:
            return "processes"
        return None

    def now(self, child: int, limits: dict[str, Any]) -> tuple[float, int, int, bool]:
        """Seconds of processor time, bytes, processes, and whether one of them wants to run.

        Args:
            child: The first of them.
            limits: What they may take: below it, memory need not be told apart from what is shared.
        """
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        ticks, pages, wants = 0, 0, False
        processes: list[str] = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or name == "1":
                continue
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if not fields or (not self.alone and int(fields[3]) != child):
                continue
            wants = wants or fields[0] == b"R"
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
            processes.append(name)
        memory = pages * _PAGE
        enough = limits["memory_bytes"]
        if enough < memory <= _SHARED * enough and len(processes) > 1:
            memory = sum(map(_own_memory, processes))  # what they share was counted for each
        if self.reserves:
            memory += sum(map(_tables, processes))
        if len(processes) > 2:
            memory += sum(_buffers(process, limits["open_files"]) for process in processes)
        if self.alone:
            for folder in ("/tmp", "/dev/shm"):
                usage = os.statvfs(folder)
                memory += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        return reaped.ru_utime + reaped.ru_stime + ticks / _CLOCK, memory, len(processes), wants


def _read(path: str) -> bytes:
    """A file of /proc; empty if its process is gone, or does not let itself be looked at."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _field(text: bytes, name: bytes) -> int | None:
    for line in text.splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return None


def _own_memory(process: str) -> int:
    """Bytes of a process, of what it shares with others its part; all of it, if it hides which."""
    own = _field(_read(f"/proc/{process}/smaps_rollup"), b"Pss:")
    if own is None:
        fields = _read(f"/proc/{process}/statm").split()
        own = int(fields[1]) * _PAGE if fields else 0
    return own


def _tables(process: str) -> int:
    """Bytes of a process's page tables, which untouched memory has, too."""
    return _field(_read(f"/proc/{process}/status"), b"VmPTE:") or 0


def _buffers(process: str, most: int) -> int:
    """Bytes that a process's open files may hold in the kernel, were they all full sockets; a few files are free.

    One that is ending, or has, hides its files, too, but has no memory any more; its first thread alone may have ended.
    """
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:
        return 0
    count = 0
    for thread in threads:
        place = f"/proc/{process}/task/{thread}"
        try:
            count = len(os.listdir(f"{place}/fd"))
            break
        except FileNotFoundError:
            continue
        except OSError:
            fields = _read(f"{place}/stat").rpartition(b")")[2].split()
            if fields and fields[20] != b"0":  # it hides them
                count = most
    return max(0, count - _FREE_FILES) * _FILE_BYTES
