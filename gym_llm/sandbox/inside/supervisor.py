"""The second process of a run, number 1 among those that the program can see: it starts the program and watches it.

What a run takes is measured over all of its processes together: processor time, memory (with the files in /tmp), how
long they all sleep. When the first process ends, or a limit is passed, all of them are killed.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import time
from typing import Any

from . import program, wire

_TICK = 0.01  # seconds between two looks, at first
_LONGEST_TICK = 0.05
_CLOCK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LONG = 10  # times its processor time, and what it may sleep: a run ends then, whatever it is doing
_PIECE = 1 << 16
_TEXTS = ("repr", "str", "error")  # of a cell
_ANSWER_SECONDS = 5.0  # from the first byte of a cell's answer to its last


def supervise(requests: int, replies: int, settings: dict[str, Any], request: wire.Message) -> None:
    """Do what is asked for, answer, and end."""
    status = 0
    header, pieces = request
    run = _Run(requests, replies, settings, header, pieces)
    try:
        if header["kind"] == "cells":
            run.cells()
        else:
            run.once()
    except (EOFError, BrokenPipeError):  # nobody waits for it any more
        run.end()
    except BaseException as error:
        try:
            wire.send(replies, {"failed": f"{type(error).__name__}: {error}"[:500]}, [])
        except OSError:
            status = 1
    finally:
        os._exit(status)


class _Stream:
    """What a program writes to one of its pipes: its first bytes, and whether there were more."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.descriptor = descriptor
        self.limit = limit
        self.data = bytearray()
        self.over = False
        self.open = True
        os.set_blocking(descriptor, False)

    def read(self) -> None:
        """Take what is there now."""
        while self.open:
            try:
                part = os.read(self.descriptor, _PIECE)
            except BlockingIOError:
                return
            if not part:
                self.open = False
            room = self.limit - len(self.data)
            self.data += part[:room]
            self.over = self.over or len(part) > room
            if self.over and len(part) == _PIECE:
                return  # endless; the watch goes on in between

    def take(self) -> bytes:
        """What has been written since the last time."""
        data, self.data, self.over = bytes(self.data), bytearray(), False
        return data


class _Use:
    """What a run has used, and how much of it before the present cell."""

    def __init__(self) -> None:
        self.seconds = 0.0  # of processor time
        self.asleep = 0.0  # seconds in which none of its processes did, or wanted to do, anything
        self.peak = 0  # bytes
        self.started = self.looked = time.monotonic()
        self.base = 0.0

    def begin(self, seconds: float) -> None:
        self.base = seconds
        self.asleep, self.seconds = 0.0, 0.0
        self.started = self.looked = time.monotonic()


class _Run:
    def __init__(
        self, requests: int, replies: int, settings: dict[str, Any], header: dict[str, Any], pieces: list[bytes]
    ) -> None:
        self.requests, self.replies = requests, replies
        self.settings, self.header, self.pieces = settings, header, pieces
        self.limits = header["limits"]
        self.alone = os.getpid() == 1  # in a namespace of its own, where -1 is whatever the program started
        self.child = 0
        self.ended: tuple[int, resource.struct_rusage] | None = None
        self.streams: list[_Stream] = []
        self.use = _Use()

    def once(self) -> None:
        """Run a program to its end."""
        names = self.header["files"]
        for (name, mode), data in zip(names, self.pieces[1:]):
            program.write_file(name, mode, data)
        self._start(program.text_input(self.pieces[0]), None)
        why = self._watch(None)
        self.end()
        answer = self._answer(why)
        collected = [program.read_file(name, self.limits["file_bytes"]) for name in self.header["collect"]]
        answer["collected"] = [data is not None for data in collected]
        wire.send(self.replies, answer, [*self._output(), *[data or b"" for data in collected]])

    def cells(self) -> None:
        """Run one piece of Python after another in one interpreter, until one takes too much or nobody asks."""
        mine, its = socket.socketpair()
        self._start(os.open(os.devnull, os.O_RDONLY), its)
        its.close()
        wire.send(self.replies, {"ready": True}, [])
        while True:
            header, pieces = wire.receive(self.requests)
            self.limits = {**self.limits, **header.get("limits", {})}
            self._signal(signal.SIGCONT)
            self.use.begin(self._used()[0])
            wire.send(mine.fileno(), {"limit": self.limits["output_bytes"]}, pieces)
            why = self._watch(mine)
            result: dict[str, bytes] = {}
            if why is None and self.ended is None:
                try:
                    result = _result(mine, self.limits["output_bytes"])
                except (EOFError, ValueError, OSError):
                    why = "ended"
            over = why is not None or self.ended is not None
            if over:
                self.end()
            else:
                self._signal(signal.SIGSTOP)  # what it left running waits for the next
            for stream in self.streams:
                stream.read()
            answer = {**self._answer(why), "texts": list(result), "over": over}
            wire.send(self.replies, answer, [*self._output(), *result.values()])
            if over:
                return

    def _start(self, stdin: int, control: socket.socket | None) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pipes = [os.pipe(), os.pipe(), os.pipe()]
        self.child = os.fork()
        if self.child == 0:
            program.become(self.header, self.settings, [stdin, pipes[0][1], pipes[1][1]], control, pipes[2][1])
        os.close(stdin)
        for _, end in pipes:
            os.close(end)
        self.streams = [_Stream(end, self.limits["output_bytes"]) for end, _ in pipes[:2]]
        with open(pipes[2][0], "rb") as told:  # ends when the program begins
            if problem := told.read():
                raise RuntimeError(problem.decode("utf-8", "replace"))
        self.use.begin(0.0)

    def _watch(self, control: socket.socket | None) -> str | None:
        """Until the program ends (or answers, where there is a control socket): None, or which limit it passed."""
        tick = _TICK
        poll = select.poll()
        child = os.pidfd_open(self.child) if hasattr(os, "pidfd_open") else -1
        watched = [self.requests, child, *([control.fileno()] if control else [])]
        for descriptor in watched:
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        for stream in self.streams:
            if stream.open:
                poll.register(stream.descriptor, select.POLLIN)
        next_look = time.monotonic() + tick
        try:
            while True:
                ready = {which for which, _ in poll.poll(max(0.0, next_look - time.monotonic()) * 1000)}
                for stream in self.streams:
                    if stream.descriptor in ready:
                        stream.read()
                        if not stream.open:
                            poll.unregister(stream.descriptor)
                        if stream.over and control is None:
                            return "output"
                if self._reap():
                    return None
                if control is not None and control.fileno() in ready:
                    return None
                if self.requests in ready:  # only its end can come now
                    raise EOFError
                if time.monotonic() >= next_look:
                    passed = self._look()
                    if passed is not None:
                        return passed
                    tick = min(_LONGEST_TICK, tick * 1.5)
                    next_look = time.monotonic() + tick
        finally:
            if child >= 0:
                os.close(child)

    def _look(self) -> str | None:
        """The limit that all processes together have passed, or None."""
        use, limits, now = self.use, self.limits, time.monotonic()
        seconds, memory, count, wants = self._used()
        use.peak = max(use.peak, memory)
        if not wants and seconds - use.base - use.seconds < 0.02 * (now - use.looked):
            use.asleep += now - use.looked
        use.looked = now
        use.seconds = max(use.seconds, seconds - use.base)
        if use.seconds > limits["cpu_seconds"]:
            return "cpu"
        if use.asleep > limits["wall_seconds"]:
            return "wall"
        if now - use.started > _LONG * (limits["cpu_seconds"] + limits["wall_seconds"]):
            return "wall"
        if memory > limits["memory_bytes"]:
            return "memory"
        if count > limits["processes"]:
            return "processes"
        return None

    def _used(self) -> tuple[float, int, int, bool]:
        """Seconds of processor time, bytes, processes, and whether one of them wants to run."""
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        ticks, pages, wants = 0, 0, False
        processes: list[str] = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or name == "1":
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if not self.alone and int(fields[3]) != self.child:
                continue
            wants = wants or fields[0] == b"R"
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
            processes.append(name)
        memory = pages * _PAGE
        if memory > self.limits["memory_bytes"] and len(processes) > 1:
            memory = sum(map(_own_memory, processes))  # what they share was counted for each
        if self.alone:
            for folder in ("/tmp", "/dev/shm"):
                usage = os.statvfs(folder)
                memory += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        return reaped.ru_utime + reaped.ru_stime + ticks / _CLOCK, memory, len(processes), wants

    def _reap(self) -> bool:
        """Collect what has ended; whether the program itself has."""
        while self.ended is None:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if process == 0:
                break
            if process == self.child:
                self.ended = status, usage
        return self.ended is not None

    def _signal(self, number: int) -> None:
        try:
            if self.alone:
                os.kill(-1, number)
            else:
                os.killpg(self.child, number)
        except (ProcessLookupError, PermissionError):
            pass

    def end(self) -> None:
        """Kill whatever is left, and wait for it: nothing runs, and nothing writes, after this."""
        self._signal(signal.SIGKILL)
        while True:
            try:
                process, status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            if process == self.child and self.ended is None:
                self.ended = status, usage
            self._signal(signal.SIGKILL)  # what was being started meanwhile
        for stream in self.streams:
            stream.read()

    def _output(self) -> list[bytes]:
        return [stream.take() for stream in self.streams]

    def _answer(self, why: str | None) -> dict[str, Any]:
        status = self.ended[0] if self.ended is not None else None
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = reaped.ru_utime + reaped.ru_stime if self.ended is not None else self._used()[0]
        seconds = max(self.use.seconds, total - self.use.base)
        if why is None and seconds > self.limits["cpu_seconds"]:
            why = "cpu"  # it ended by itself between two looks, or by the kernel's own limit
        if why is None and any(stream.over for stream in self.streams) and self.header["kind"] != "cells":
            why = "output"
        return {
            "limit": why,
            "exit_code": None if status is None else os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "cut": [stream.over for stream in self.streams],
            "cpu_seconds": seconds,
            "wall_seconds": time.monotonic() - self.use.started,
            "peak_bytes": max(self.use.peak, reaped.ru_maxrss * 1024 if self.header["kind"] != "cells" else 0),
        }


def _own_memory(process: str) -> int:
    """Bytes of a process, of what it shares with others its part."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    except (OSError, StopIteration):
        return 0


def _result(control: socket.socket, limit: int) -> dict[str, bytes]:
    """What a cell came to, as its interpreter, which the model's code shares, says."""
    header, pieces = wire.receive(control.fileno(), 4 * limit + 4096, time.monotonic() + _ANSWER_SECONDS)
    names = header.get("names")
    if not isinstance(names, list) or len(names) != len(pieces) or not all(name in _TEXTS for name in names):
        raise ValueError("no result")
    return dict(zip(names, pieces))
