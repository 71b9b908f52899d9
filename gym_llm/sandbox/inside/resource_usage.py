"""Resources that the processes of a run use together, as the kernel reports them."""

# The measurement. The supervisor calls `look` every 10 to 50 ms; each look reads /proc once.
#   - Processor time is that of the living processes, plus that of the dead ones. The kernel adds the time of a dead
#     process to the parent that waits for it; if the parent ignores its children, the time is in no sum. `_account`
#     finds it: time that a process had at the last look, and that is in no sum at this one, is `missing`. If the next
#     look does not find it either (the parent may have been in the midst of waiting), it is `lost`, and counts.
#   - Sleep is the time in which no process runs or wants to run. A look sees only one moment, so a program that often
#     sleeps briefly would look asleep; `_sleep` therefore subtracts what each task has run and waited for a processor.
#   - Memory is the resident memory, without what processes share where that decides, the files in /tmp and /dev/shm,
#     page tables of programs that reserve much, and what open sockets and pipes can hold for their readers. There is
#     a limit for the number of mappings, too, as the kernel has memory for each. It is counted less often.
#   - Each session (`setsid`) may be a group of the kernel's scheduler, which gives every group the same time. So a run
#     may have a few only.
# In a sandbox without a namespace of its own (containers) only the descendants of the supervisor are seen.

from __future__ import annotations

import os
import resource
import stat
import time
from typing import Any

_CLOCK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LONG = 10  # times its processor time, and what it may sleep: a run ends then, whatever it is doing
_SHARED = 8  # times the limit: more than that is not taken for memory that processes share
_SLACK_TICKS = 1  # the kernel gives time in whole ticks
_FREE_SOCKETS = 16  # that are not counted as memory
_PIPE_BYTES = 1 << 16  # a pipe's capacity, which programs cannot raise
_MOST_SESSIONS = 4
_SESSIONS_OF_MACHINES = 64  # terminals and services have one each
_MAPPINGS_SECONDS = 0.1  # between two counts of them
_MOST_MAPPINGS = 1 << 14  # of all processes, beside the usual ones of each
_USUAL_MAPPINGS = 1 << 10
_SOCKET_BYTES = 425984  # what a socket keeps for its reader at most (net.core.wmem_max, as Linux counts it)


class _Tasks:
    """The times that each task has run, or waited for a processor, so far.

    Args:
        times: Nanoseconds, by task.
        last: The number of the last task that was started.
    """

    def __init__(self, times: dict[str, int], last: int) -> None:
        self.times = times
        self.last = last

    def active_since(self, before: _Tasks) -> float | None:
        """Return the seconds that they have run and waited since; None if a task has ended with its times unknown."""
        new = self.times.keys() - before.times.keys()
        if len(self.times) - len(new) < len(before.times) or len(new) != self.last - before.last:
            return None
        return sum(time - before.times.get(task, 0) for task, time in self.times.items()) / 1e9


class Use:
    """The resources that a run has used, and those of them before the present cell.

    Args:
        alone: Whether all processes but number 1 belong to the run, which has a namespace of its own then.
        reserves: Whether its address space is not limited.
        machine: Whether it is a whole machine, with terminals and services.
    """

    def __init__(self, alone: bool, reserves: bool, machine: bool = False) -> None:
        self.alone = alone
        self.most_sessions = _SESSIONS_OF_MACHINES if machine else _MOST_SESSIONS
        self.reserves = reserves
        self.seconds = 0.0  # of processor time
        self.asleep = 0.0  # seconds in which none of its processes did, or wanted to do, anything
        self.peak = 0  # bytes
        self.base = 0.0
        self.lost = 0.0  # seconds of processes that ended without a waiting parent
        self.missing = 0.0  # likewise, unless a parent's sum has it at the next look
        self.known: dict[int, tuple[int, int]] = {}  # ticks by process: all, and those of children that it waited for
        self.waited = 0.0  # ticks of all processes that were waited for
        self.present: list[str] = []  # processes at the last look
        self.sessions: set[bytes] = set()  # of those
        self.counted = 0.0  # when the mappings were
        self.begin(0.0)

    def begin(self, seconds: float) -> None:
        """Begin a cell, after these seconds of processor time."""
        self.base = seconds
        self.asleep, self.seconds = 0.0, 0.0
        self.started = self.looked = time.monotonic()
        self.quiet: tuple[float, _Tasks] | None = None  # when nothing ran, and what each task had had until then

    def look(self, child: int, limits: dict[str, Any]) -> str | None:
        """Return the limit that all processes together have passed, or None.

        Args:
            child: The first of them.
            limits: Their limits.
        """
        now = time.monotonic()
        seconds, memory, count, wants = self.now(child, limits)
        self.peak = max(self.peak, memory)
        if not wants:
            self._sleep(now, seconds)
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
        if count > limits["processes"] or len(self.sessions) > self.most_sessions:
            return "processes"
        return "memory" if self._too_many_mappings(now) else None

    def _too_many_mappings(self, now: float) -> bool:
        if now - self.counted < _MAPPINGS_SECONDS:
            return False
        self.counted = now
        left = _MOST_MAPPINGS
        for process in self.present:
            left -= max(0, _mappings(process, left + _USUAL_MAPPINGS) - _USUAL_MAPPINGS)
            if left < 0:
                return True
        return False

    def now(self, child: int, limits: dict[str, Any]) -> tuple[float, int, int, bool]:
        """Return the seconds of processor time, bytes, processes, and whether one of them wants to run.

        Args:
            child: The first of them.
            limits: Their limits: below these, shared memory need not be counted apart.
        """
        pages, count, wants = 0, 0, False
        known: dict[int, tuple[int, int]] = {}
        processes: list[str] = []
        present: list[str] = []
        sessions: set[bytes] = set()
        for name in os.listdir("/proc") if self.alone else descendants(os.getpid()):
            if not name.isdigit() or name == "1":
                continue
            fields = _fields(f"/proc/{name}/stat")
            if not fields:
                continue
            state, threads = fields[0], int(fields[17])
            waited = int(fields[13]) + int(fields[14])
            known[int(name)] = int(fields[11]) + int(fields[12]) + waited, waited
            present.append(name)
            count += 1
            if state != b"Z":
                sessions.add(fields[3])
            if threads > 1 and (state == b"Z" or not wants):
                thread, runs = _threads(name)
                wants = wants or runs
                if state == b"Z":  # its first thread has ended, and says nothing of the others' memory
                    name, fields = thread, _fields(f"/proc/{thread}/stat") or fields
            wants = wants or state == b"R"
            if state != b"Z" or threads > 1:
                pages += int(fields[21])
                processes.append(name)
        self.present, self.sessions = present, sessions
        self._account(known)
        seconds = _waited() + self.lost + sum(total for total, _ in known.values()) / _CLOCK
        return seconds, self._memory(processes, pages * _PAGE, limits), count, wants

    def _sleep(self, now: float, seconds: float) -> None:
        """Count how long all have slept, at a look that found them asleep.

        On a busy machine, a program that often sleeps briefly waits long for a processor each time. So what its tasks
        ran and waited is subtracted from the time since the last look that found all asleep. If the kernel does not
        report that of every task, all of the time since the last look counts.
        """
        asleep = now - self.looked - max(0.0, seconds - self.base - self.seconds)
        tasks = _tasks(self.present) if self.alone else None
        if tasks is not None and self.quiet is not None:
            since, before = self.quiet
            active = tasks.active_since(before)
            if active is not None:
                asleep = now - since - active
        self.asleep += max(0.0, asleep)
        self.quiet = None if tasks is None else (now, tasks)

    def settle(self) -> None:
        """Count the times of processes that had no parent waiting, after all have ended."""
        self._account({})
        self.lost, self.missing = self.lost + self.missing, 0.0

    def _account(self, known: dict[int, tuple[int, int]]) -> None:
        """Find what ended since the last look and was not added to its parent's time, as of a parent that ignores it.

        A process may have been waited for while it was looked at: so what is missing counts with the next look only.
        """
        if not self.alone:
            return
        waited = _waited() * _CLOCK + sum(part for _, part in known.values())
        gone = sum(total for process, (total, _) in self.known.items() if process not in known)
        gone_waited = sum(part for process, (_, part) in self.known.items() if process not in known)
        missing = (gone - (waited - self.waited + gone_waited)) / _CLOCK
        confirmed = max(0.0, self.missing + min(0.0, missing))
        if confirmed > _SLACK_TICKS / _CLOCK:
            self.lost += confirmed
        self.missing = max(0.0, missing)
        self.known, self.waited = known, waited

    def _memory(self, processes: list[str], memory: int, limits: dict[str, Any]) -> int:
        enough = limits["memory_bytes"]
        if enough < memory <= _SHARED * enough and len(processes) > 1:
            memory = sum(map(_part_of_memory, processes))  # what they share was counted for each
        if self.reserves:
            memory += sum(map(_tables, processes))
        if self.alone:
            for folder in ("/tmp", "/dev/shm"):
                usage = os.statvfs(folder)
                memory += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        files = sum(_open_files(process, limits["open_files"]) for process in processes)
        if memory + files * _SOCKET_BYTES > enough:  # it could matter what they are
            memory += _channels(processes, limits["open_files"])
        return memory


def _tasks(processes: list[str]) -> _Tasks | None:
    """Return the times that the tasks of processes have run and waited; None if this kernel does not say."""
    times: dict[str, int] = {}
    for process in processes:
        for task in _names(f"/proc/{process}/task"):
            fields = _read(f"/proc/{process}/task/{task}/schedstat").split()
            if len(fields) < 2:
                return None
            times[task] = int(fields[0]) + int(fields[1])
    last = _read("/proc/loadavg").split()[-1:]
    return _Tasks(times, int(last[0])) if last else None


def descendants(process: int) -> list[str]:
    """Return the descendants of a process that are still alive."""
    children: dict[str, list[str]] = {}
    for name in os.listdir("/proc"):
        fields = _fields(f"/proc/{name}/stat") if name.isdigit() else []
        if fields:
            children.setdefault(fields[1].decode(), []).append(name)
    found: list[str] = []
    left = [str(process)]
    while left:
        new = children.pop(left.pop(), [])
        found += new
        left += new
    return found


def _waited() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _fields(path: str) -> list[bytes]:
    return _read(path).rpartition(b")")[2].split()


def _threads(process: str) -> tuple[str, bool]:
    """Return one thread of a process that has not ended, and whether any of them wants to run."""
    found = process
    for thread in _names(f"/proc/{process}/task"):
        state = _fields(f"/proc/{process}/task/{thread}/stat")[:1]
        if state == [b"R"]:
            return thread, True
        if state and state[0] not in b"ZX":
            found = thread
    return found, False


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


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


def own_memory() -> int:
    """Bytes of this process, which a copy of it has, too, before it does anything."""
    return int(_read("/proc/self/statm").split()[1]) * _PAGE


def _part_of_memory(process: str) -> int:
    own = _field(_read(f"/proc/{process}/smaps_rollup"), b"Pss:")
    if own is None:
        fields = _read(f"/proc/{process}/statm").split()
        own = int(fields[1]) * _PAGE if fields else 0
    return own


def _tables(process: str) -> int:
    return _field(_read(f"/proc/{process}/status"), b"VmPTE:") or 0


def _open_files(process: str, most: int) -> int:
    try:
        return len(os.listdir(f"/proc/{process}/fd"))
    except PermissionError:
        return most if _read(f"/proc/{process}/statm")[:1] not in (b"", b"0") else 0  # else it has just ended
    except OSError:
        return 0


def _channels(processes: list[str], most: int) -> int:
    """Return the bytes that open sockets and pipes can hold, without a few; all files of one that hides them count."""
    sockets: set[tuple[int, int]] = set()
    pipes: set[tuple[int, int]] = set()
    hidden = 0
    for process in processes:
        names = _names(f"/proc/{process}/fd")
        for name in names:
            try:
                status = os.stat(f"/proc/{process}/fd/{name}")
            except OSError:
                continue
            if stat.S_ISSOCK(status.st_mode):
                sockets.add((status.st_dev, status.st_ino))
            elif stat.S_ISFIFO(status.st_mode):
                pipes.add((status.st_dev, status.st_ino))
        if not names:
            hidden += max(0, _open_files(process, most) - _FREE_SOCKETS)
    of_sockets = (max(0, len(sockets) - _FREE_SOCKETS) + hidden) * _SOCKET_BYTES
    return of_sockets + max(0, len(pipes) - _FREE_SOCKETS) * _PIPE_BYTES


def _mappings(process: str, enough: int) -> int:
    """Count the mappings of a process, at least up to a number."""
    count = 0
    try:
        descriptor = os.open(f"/proc/{process}/maps", os.O_RDONLY)
    except OSError:
        return 0
    try:
        while count <= enough and (part := os.read(descriptor, 1 << 16)):
            count += part.count(b"\n")
    except OSError:
        pass  # it has ended
    finally:
        os.close(descriptor)
    return count
