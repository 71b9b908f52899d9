"""The process in bubblewrap that starts a supervisor for each run, seen from outside."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable

from gym_llm.errors import SandboxError, SandboxUnavailable
from gym_llm.sandbox.channel import Channel

_START_SECONDS = 60
_FULL_SECONDS = 0.002
_LAST_BYTES = 2000
_TRIES = 5


class Zygote:
    """Started with the first run, and again if it ends.

    Args:
        command: Makes the command line, from the number of the socket that it inherits.
    """

    def __init__(self, command: Callable[[int], list[str]]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def start(self) -> None:
        """Start it, unless it runs.

        Raises:
            SandboxUnavailable: If it does not start; the message has its last words.
        """
        async with self._starting:
            if self._closed:
                raise SandboxUnavailable("The sandbox is closed.")
            if self._process is not None and self._process.poll() is None:
                return
            self._end()
            control, inherited = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with inherited, tempfile.TemporaryFile() as words:
                self._control = control
                try:
                    self._process = subprocess.Popen(
                        self._command(inherited.fileno()),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=words,
                        pass_fds=(inherited.fileno(),),
                        env={"PATH": "/usr/bin:/bin"},  # bubblewrap's own can be read inside
                        start_new_session=True,
                    )
                except OSError as error:
                    raise SandboxUnavailable(f"No sandbox: {error}.") from None
                inherited.close()
                control.setblocking(False)
                ready = b""
                with contextlib.suppress(TimeoutError, OSError):
                    async with asyncio.timeout(_START_SECONDS):
                        ready = await asyncio.get_running_loop().sock_recv(control, 16)
                if ready != b"ready":
                    self._end()
                    words.seek(0)
                    said = words.read(_LAST_BYTES).decode("utf-8", "replace").strip().splitlines()
                    raise SandboxUnavailable(f"No sandbox: {said[-1] if said else 'its first process ended'}.")

    async def channel(self) -> Channel:
        """Return a channel to the supervisor of a new run.

        Raises:
            SandboxError: If the process ended meanwhile, again and again.
            SandboxUnavailable: If it does not start.
        """
        for _ in range(_TRIES):
            await self.start()
            control = self._control
            assert control is not None
            mine, its = _pair()
            try:
                with its:
                    await _hand_over(control, its)
            except OSError:  # it has ended, and bubblewrap is about to
                mine.close()
                if self._control is control:
                    self._end()
            except BaseException:
                mine.close()
                raise
            else:
                return await Channel.over(mine)
        raise SandboxError(f"A sandbox ended {_TRIES} times before it began a run.", failure_kind="kill_shaped")

    async def close(self) -> None:
        """End it and all that runs in it."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


async def _hand_over(control: socket.socket, end: socket.socket) -> None:
    while True:
        try:
            socket.send_fds(control, [b"."], [end.fileno()])
            return
        except BlockingIOError:  # it has hundreds to start
            await asyncio.sleep(_FULL_SECONDS)


def _pair() -> tuple[socket.socket, socket.socket]:
    """A run's two ends; this process is allowed as many files as it may have, if it runs out of them.

    Raises:
        SandboxError: If there are too many all the same.
    """
    try:
        return socket.socketpair()
    except OSError as error:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if error.errno == errno.EMFILE and soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return _pair()
        raise SandboxError(
            f"No more runs or sessions can be opened: {error} (limit {soft} open files); close sessions or raise "
            "ulimit -n."
        ) from None
