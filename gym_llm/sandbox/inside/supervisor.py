"""The second process of a run, number 1 among those that the program can see: it starts the program and watches it.

It measures all processes of a run together: processor time, memory with the files in /tmp, and the time in which all of
them sleep. When the first process ends, or a run exceeds a limit, it kills all of them.
"""

# The protocol of a run. The first process forks a supervisor into new namespaces and gives it one end of a channel; the
# caller, outside, has the other end and writes one request.
#   - `once` writes the files, starts the program, watches it to its end and sends one answer: result, output, files.
#   - `cells` starts an interpreter and answers "ready". Then each request is a cell: the processes continue (SIGCONT),
#     the cell runs, its answer is sent, and all processes stop (SIGSTOP) until the next request. `_idle` looks at them
#     meanwhile, as a timer can wake them.
# The program has pipes for output and errors, and an interpreter of cells two more for cells and answers (`_Control`).
# It can write anything into them, so everything that is read from them is bounded and checked.
# `_watch` polls all pipes, and the channel: if the caller is gone, the channel ends and the run with it. Between polls
# it looks at the resources, first after 10 ms, then less often. `end` kills until no process is left: one that is being
# started while the signal goes round is caught by the next round.

from __future__ import annotations

import os
import resource
import select
import signal
import time
from typing import Any

from . import framing, kernel, program, resource_usage

_TICK = 0.01  # seconds between two looks, at first
_LONGEST_TICK = 0.05
_IDLE_SECONDS = 0.25  # likewise, between cells
_LONGEST_IDLE_SECONDS = 2.0
_IDLE_USE_SECONDS = 0.1  # of processor time: stopping takes a moment
_PIECE = 1 << 16
_LAST_PIECES = 64  # a pipe without writers holds no more
EVERY_CHILD = 0x40000000  # __WALL: also those that end without a signal to this process
_TEXTS = ("repr", "str", "error")  # of a cell's answer
_HEADER_BYTES = 1 << 12


def supervise(requests: int, replies: int, settings: dict[str, Any], request: framing.Message) -> None:
    """Do what is asked for, answer, and end."""
    status = 0
    header, pieces = request
    run = Run(requests, replies, settings, header, pieces)
    try:
        if header["kind"] == "cells":
            run.cells()
        else:
            run.once()
    except (EOFError, BrokenPipeError):  # the caller is gone
        run.end()
    except BaseException as error:
        try:
            framing.send(replies, {"failed": f"{type(error).__name__}: {error}"[:500]}, [])
        except OSError:
            status = 1
    finally:
        os._exit(status)


class Stream:
    """The output of a program to one of its pipes: its first bytes, and whether there were more."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.descriptor = descriptor
        self.limit = limit
        self.data = bytearray()
        self.over = False
        self.open = True
        os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Take a piece of what is there now; False if nothing is."""
        if not self.open:
            return False
        try:
            part = os.read(self.descriptor, _PIECE)
        except BlockingIOError:
            return False
        self.open = bool(part)
        room = self.limit - len(self.data)
        self.data += part[:room]
        self.over = self.over or len(part) > room
        return self.open

    def rest(self) -> None:
        """Take what there still is, after those who write have ended or been stopped."""
        for _ in range(_LAST_PIECES):
            if not self.read():
                return

    def take(self) -> bytes:
        """Read the output since the last time."""
        data, self.data, self.over = bytes(self.data), bytearray(), False
        return data


class _Control:
    """The pipes to and from an interpreter of cells: nothing that comes over them holds up the watch, or breaks it."""

    def __init__(self, writing: int, reading: int) -> None:
        self.writing, self.reading = writing, reading
        self.waiting = memoryview(b"")
        self.data = bytearray()
        self.limit = 0
        for descriptor in (writing, reading):
            os.set_blocking(descriptor, False)

    def ask(self, header: dict[str, Any], pieces: list[bytes]) -> None:
        """Begin to send a message; `limit` is that of the answer's texts together."""
        self.waiting = memoryview(framing.pack(header, pieces))
        self.data.clear()
        self.limit = framing.LENGTH.size + _HEADER_BYTES + len(_TEXTS) * header["limit"]

    def write(self) -> None:
        """Send what can be sent now."""
        try:
            self.waiting = self.waiting[os.write(self.writing, self.waiting) :]
        except BlockingIOError:
            pass

    def read(self) -> dict[str, bytes] | None:
        """Return the answer's texts by name if all of it has arrived, else None.

        Raises:
            ValueError: If the answer is invalid.
            OSError: If the other side is closed.
        """
        try:
            part = os.read(self.reading, _PIECE)
        except BlockingIOError:
            return None
        if not part:
            raise BrokenPipeError("the interpreter is closed")
        self.data += part
        if len(self.data) > self.limit:
            raise ValueError("an answer that is too large")
        start = framing.LENGTH.size
        if len(self.data) < start:
            return None
        (length,) = framing.LENGTH.unpack_from(self.data)
        if length > _HEADER_BYTES:
            raise ValueError("a header that is too large")
        if len(self.data) < start + length:
            return None
        header = framing.header_of(bytes(self.data[start : start + length]))
        sizes, names = header["sizes"], header.get("names")
        if not isinstance(names, list) or len(names) != len(sizes) or any(name not in _TEXTS for name in names):
            raise ValueError("no answer")
        if len(self.data) < start + length + sum(sizes):
            return None
        start += length
        texts: dict[str, bytes] = {}
        for name, size in zip(names, sizes):
            texts[name] = bytes(self.data[start : start + size])
            start += size
        return texts


class Run:
    """A run of a program, or a session of cells, with its measurements and its end."""

    def __init__(
        self, requests: int, replies: int, settings: dict[str, Any], header: dict[str, Any], pieces: list[bytes]
    ) -> None:
        self.requests, self.replies = requests, replies
        self.settings, self.header, self.pieces = settings, header, pieces
        self.limits = header["limits"]
        self.alone = os.getpid() == 1  # in a namespace of its own, where -1 is whatever the program started
        self.child = 0
        self.ended: tuple[int, resource.struct_rusage] | None = None
        self.streams: list[Stream] = []
        self.texts: dict[str, bytes] | None = None
        self.use = resource_usage.Use(self.alone, bool(header.get("reserves")), "root" in header)

    def once(self) -> None:
        """Run a program to its end."""
        names = self.header["files"]
        for (name, mode), data in zip(names, self.pieces[1:]):
            program.write_file(name, mode, data)
        self._start(program.text_input(self.pieces[0]))
        why = self._watch(None)
        self.end()
        answer = self._answer(why)
        collected = [program.read_file(name, self.limits["file_bytes"]) for name in self.header["collect"]]
        answer["collected"] = [data is not None for data in collected]
        framing.send(self.replies, answer, [*self._output(), *[data or b"" for data in collected]])

    def cells(self) -> None:
        """Run one piece of Python after another in one interpreter, until one passes a limit or the channel closes."""
        to_it, from_it = os.pipe(), os.pipe()
        control = _Control(to_it[1], from_it[0])
        self._start(os.open(os.devnull, os.O_RDONLY), (from_it[1], to_it[0]))
        os.close(to_it[0])
        os.close(from_it[1])
        framing.send(self.replies, {"ready": True}, [])
        stopped_at: float | None = None
        held = 0
        while True:
            why = self._idle(stopped_at)
            header, pieces = framing.receive(self.requests)
            self.limits = {**self.limits, **header.get("limits", {})}
            self.use.begin(self.use.now(self.child, self.limits)[0] if stopped_at is None else stopped_at)
            self.texts = None
            if why is None:
                self._signal(signal.SIGCONT)
                control.ask({"limit": self.limits["output_bytes"]}, pieces)
                why = self._watch(control) or self._overdrawn()
            over = why is not None or self.texts is None
            if over:
                self.end()
            else:
                self._signal(signal.SIGSTOP)  # what it left running waits for the next
                stopped_at, held, _, _ = self.use.now(self.child, self.limits)
                for stream in self.streams:
                    stream.rest()
            texts: dict[str, bytes] = self.texts or {}
            answer = {**self._answer(why), "texts": list(texts), "over": over}
            answer["held_bytes"] = 0 if over else max(0, held - resource_usage.own_memory())
            framing.send(self.replies, answer, [*self._output(), *texts.values()])
            if over:
                return

    def _idle(self, stopped_at: float | None) -> str | None:
        """Wait for a cell. Return None, or the limit that the stopped processes passed, for which they were killed.

        A timer of the kernel can wake stopped processes: they are stopped again once, and what they take meanwhile
        counts for the next cell.
        """
        wait, warned = _IDLE_SECONDS, False
        while stopped_at is not None and not select.select([self.requests], [], [], wait)[0]:
            seconds, memory, _, _ = self.use.now(self.child, self.limits)
            why = "memory" if memory > self.limits["memory_bytes"] else None
            if seconds - stopped_at > _IDLE_USE_SECONDS:
                why = why or ("cpu" if warned else None)
                self._signal(signal.SIGSTOP)
                warned, wait = True, _IDLE_SECONDS
            if why is not None:
                self.end()
                return why
            wait = min(_LONGEST_IDLE_SECONDS, wait * 2)
        return None

    def _start(self, stdin: int, others: tuple[int, ...] = ()) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not self.alone:
            kernel.adopt_orphans()
        pipes = [os.pipe(), os.pipe(), os.pipe()]
        self.child = os.fork() if self.settings.get("preload") else kernel.fork()  # what is preloaded may want to know
        if self.child == 0:
            streams = [stdin, pipes[0][1], pipes[1][1], *others]
            program.become(self.header, self.settings, streams, pipes[2][1])
        os.close(stdin)
        for _, end in pipes:
            os.close(end)
        self.streams = [Stream(end, self.limits["output_bytes"]) for end, _ in pipes[:2]]
        errors = pipes[2][0]
        problem = os.read(errors, _PIECE)  # empty when the program begins
        os.close(errors)
        if problem:
            raise RuntimeError(problem.decode("utf-8", "replace"))
        self.use.begin(0.0)

    def _poll(self, child: int) -> select.poll:
        """Return a poll of what can come: a request, the end of the child (unless it is -1), output."""
        poll = select.poll()
        for descriptor in (self.requests, child, *(stream.descriptor for stream in self.streams if stream.open)):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        return poll

    def _watch(self, control: _Control | None) -> str | None:
        """Wait until the program ends (or answers, with a control). Return None, or the limit that it passed."""
        tick = _TICK
        child = os.pidfd_open(self.child) if hasattr(os, "pidfd_open") else -1
        poll = self._poll(child)
        if control is not None:
            poll.register(control.reading, select.POLLIN)
            poll.register(control.writing, select.POLLOUT)
        next_look = time.monotonic() + tick
        try:
            while True:
                ready = {which for which, _ in poll.poll(max(0.0, next_look - time.monotonic()) * 1000)}
                for stream in self.streams:
                    if stream.descriptor in ready:
                        stream.read()
                        if not stream.open:
                            poll.unregister(stream.descriptor)
                        if stream.over and control is None and not self.header.get("drains"):
                            return "output"
                if self._reap():
                    return None
                if control is not None and self._speak(control, poll, ready):
                    return None
                if self.requests in ready:  # only its end can come now
                    raise EOFError
                if time.monotonic() >= next_look:
                    passed = self.use.look(self.child, self.limits)
                    if passed is not None:
                        return passed
                    tick = _TICK if self.use.lost else min(_LONGEST_TICK, tick * 1.5)
                    next_look = time.monotonic() + tick
        finally:
            if child >= 0:
                os.close(child)

    def _speak(self, control: _Control, poll: select.poll, ready: set[int]) -> bool:
        """Read and write what is ready; return whether the interpreter has answered, or never will."""
        try:
            if control.waiting and control.writing in ready:
                control.write()
                if not control.waiting:
                    poll.unregister(control.writing)
            if control.reading in ready:
                self.texts = control.read()
        except Exception:  # a program of the model chooses what comes
            return True
        return self.texts is not None

    def _reap(self) -> bool:
        """Collect the processes that have ended; return whether the program itself has."""
        while self.ended is None:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG | EVERY_CHILD)
            except ChildProcessError:
                break
            if process == 0:
                break
            if process == self.child:
                self.ended = status, usage
            self.reaped(process, status)
        return self.ended is not None

    def reaped(self, process: int, status: int) -> None:
        """Note that a process has ended."""

    def _signal(self, number: int) -> None:
        try:
            if self.alone:
                os.kill(-1, number)
            else:
                os.killpg(self.child, number)
        except (ProcessLookupError, PermissionError):
            pass
        for process in () if self.alone else resource_usage.descendants(os.getpid()):  # those that left its group, too
            try:
                os.kill(int(process), number)
            except (ProcessLookupError, PermissionError):
                pass

    def end(self) -> None:
        """Kill all processes and wait for them: afterwards nothing runs, and nothing writes."""
        self._signal(signal.SIGKILL)
        while True:
            try:
                process, status, use = os.wait4(-1, EVERY_CHILD | (0 if self.alone else os.WNOHANG))
            except ChildProcessError:
                break
            if process == self.child and self.ended is None:
                self.ended = status, use
            self.reaped(process, status)
            if process == 0:  # what was started between looking and killing is a child of this one by now
                time.sleep(_TICK)
            self._signal(signal.SIGKILL)  # what was being started meanwhile
        self.use.settle()
        for stream in self.streams:
            stream.rest()

    def _output(self) -> list[bytes]:
        return [stream.take() for stream in self.streams]

    def _overdrawn(self) -> str | None:
        return "cpu" if self._seconds() > self.limits["cpu_seconds"] else None

    def _seconds(self) -> float:
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = reaped.ru_utime + reaped.ru_stime + self.use.lost
        if self.ended is None:
            total = self.use.now(self.child, self.limits)[0]
        return max(self.use.seconds, total - self.use.base)

    def _answer(self, why: str | None) -> dict[str, Any]:
        status = self.ended[0] if self.ended is not None else None
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        why = why or self._overdrawn()
        if why is None and self.header["kind"] == "run" and reaped.ru_maxrss * 1024 > self.limits["memory_bytes"]:
            why = "memory"  # for a moment between two looks
        drains = self.header["kind"] == "cells" or self.header.get("drains")
        if why is None and any(stream.over for stream in self.streams) and not drains:
            why = "output"
        return {
            "limit": why,
            "exit_code": None if status is None else os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "cut": [stream.over for stream in self.streams],
            "cpu_seconds": self._seconds(),
            "wall_seconds": time.monotonic() - self.use.started,
            "peak_bytes": max(self.use.peak, reaped.ru_maxrss * 1024 if self.header["kind"] != "cells" else 0),
        }
