"""A program that runs in a machine beside its commands for as long as an episode lasts: the episode's agent.

It has a loopback of the machine's own with ports that lead outside. The first process opens them here and sends the
listening sockets to the caller, who accepts their connections. The machine has no other way out.
"""

# The protocol. The caller sends `begin`, and the program runs. `await` is answered when the program has ended or passed
# a limit, or with nothing as soon as another request follows: so the caller interrupts it with `poke`, which has no
# answer, asks what it wants, and sends `await` again. Commands run meanwhile, and the program runs on beside them.
# `forget` drops its standard output until now.
# `kill`, and all that includes it (`verify`, `restore`), ends the program and closes the ports.

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from typing import Any

from . import program, supervisor

_TICK, _LONGEST_TICK = 0.02, 0.2  # seconds between two looks: soon after it has computed, later while it waits
_BACKLOG = 64
_CROWDED = 0.9  # of the processes that it may have
_MANY, _FEW_MORE = 24, 4  # processes, and new ones between two looks
_IDLE_SECONDS = 0.002  # of processor time between two looks


class LastBytes(supervisor.Stream):
    """The output of a program to one of its pipes: its last bytes."""

    def read(self) -> bool:
        """Take a piece of what is there now; False if nothing is."""
        limit, self.limit = self.limit, 1 << 40
        try:
            return super().read()
        finally:
            self.limit = limit
            del self.data[:-limit]


class Resident(supervisor.Run):
    """The program, with its limits over everything that runs in the machine."""

    count = 0  # of processes at the last look
    was_killed = False
    why: str | None = None

    def begin(self, error_bytes: int) -> None:
        """Start it.

        Args:
            error_bytes: Bytes of its standard error to keep, the last ones.

        Raises:
            RuntimeError: If it cannot be started.
        """
        before = self.use.now(0, self.limits)[0]
        self._start(program.text_input(self.pieces[0]))
        self.streams[1] = LastBytes(self.streams[1].descriptor, error_bytes)
        self.use.begin(before)
        self._signal(signal.SIGCONT)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or has to."""
        return self.ended is not None or self.why is not None

    def watch(self) -> bool:
        """Wait until it has ended or passed a limit; False if a request came first.

        Raises:
            EOFError: If the caller is gone.
        """
        child = os.pidfd_open(self.child) if hasattr(os, "pidfd_open") and self.ended is None else -1
        poll = self._poll(child)
        tick = _TICK
        next_look = time.monotonic() + tick
        try:
            while not self.is_over:
                ready = {which for which, _ in poll.poll(max(0.0, next_look - time.monotonic()) * 1000)}
                for stream in self.streams:
                    if stream.descriptor in ready:
                        stream.read()
                        if not stream.open:
                            poll.unregister(stream.descriptor)
                if self._reap() or self.requests in ready:
                    break
                if time.monotonic() >= next_look:
                    before = self.use.seconds
                    self.why = self._look()
                    is_idle = self.use.seconds - before < _IDLE_SECONDS
                    tick = min(_LONGEST_TICK, tick * 1.5) if is_idle else _TICK
                    next_look = time.monotonic() + tick
        finally:
            if child >= 0:
                os.close(child)
        return self.is_over

    def _look(self) -> str | None:
        """Return the limit that all processes together have passed, or None.

        The kernel refuses more processes than the limit, so a program that starts as many as it can never passes it.
        While many processes compute, this one gets little time: if they are many or become more, they are stopped
        meanwhile.
        """
        count = sum(name.isdigit() for name in os.listdir("/proc"))
        if count > _CROWDED * self.limits["processes"]:
            return "processes"
        before, self.count = self.count, count
        if count <= min(_MANY, before + _FEW_MORE):
            return self.use.look(self.child, self.limits)
        self._signal(signal.SIGSTOP)
        passed = self.use.look(self.child, self.limits)
        self._signal(signal.SIGCONT)
        return passed

    def forget_output(self) -> None:
        """Drop what it has written on its standard output until now."""
        self.streams[0].rest()
        self.streams[0].take()

    def finish(self) -> tuple[dict[str, Any], list[bytes]]:
        """End what is left of it; return its end and its output. Nothing in the machine runs then."""
        if self.why is not None and self.ended is None:
            self.end()
        self._signal(signal.SIGSTOP)
        for stream in self.streams:
            stream.rest()
        answer = {**self._answer(self.why), "ended": True, "killed": self.was_killed}
        output = self._output()
        self.close()
        return answer, output

    def note_end(self, status: int, was_killed: bool = False) -> None:
        """Note that it has ended, with this status, and whether the caller asked for it."""
        self.ended = status, resource.getrusage(resource.RUSAGE_SELF)
        self.was_killed = was_killed

    def close(self) -> None:
        """Let go of its pipes."""
        for stream in self.streams:
            os.close(stream.descriptor)
        self.streams = []


class Ports:
    """Ports on the machine's loopback whose connections the caller accepts."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def open(self, ports: list[int]) -> None:
        """Open ports.

        Raises:
            OSError: If a port is taken.
        """
        self.close()
        for port in ports:
            listening = socket.socket()
            self._open.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
            listening.listen(_BACKLOG)

    def send(self, control: int) -> None:
        """Send the sockets to the caller, with one byte."""
        with socket.socket(fileno=os.dup(control)) as channel:
            socket.send_fds(channel, [b"p"], [listening.fileno() for listening in self._open])

    def close(self) -> None:
        """Close the ports; the caller's copies of the sockets accept nothing more."""
        for listening in self._open:
            try:
                listening.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listening.close()
        self._open = []
