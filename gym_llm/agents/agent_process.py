"""AgentProcess: a program with bounded output whose processes all end with it.

The program gets its own session, and so its own process group. When its first process ends or must end, the whole group
is killed. A daemon may have left the group, so every other process with the mark in its environment is killed, too;
children inherit the mark. If this parent process is killed, the kernel kills the program, where `setpriv` is installed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

STDOUT_BYTES, STDERR_BYTES = 1 << 20, 1 << 14
TERM_SECONDS = 2.0
_PIPE_SECONDS = 1.0
_ROUNDS = 20


class Ended(NamedTuple):
    """The end of a program.

    Attributes:
        code: The exit code, negative for a signal.
        stdout: The beginning of its standard output, at most 1 MiB.
        stderr: The end of its standard error, at most 16 KiB.
    """

    code: int
    stdout: str
    stderr: str


class RunningProgram(asyncio.SubprocessProtocol):
    """A program under way; `start`, then `wait`, and `end` on every way out."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._stdout, self._stderr = bytearray(), bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.Event()
        self._pipes_open = 2
        self._pipes_closed = asyncio.Event()

    async def start(
        self, command: Sequence[str], *, stdin: IO[bytes], folder: str, environment: Mapping[str, str]
    ) -> None:
        """Start the program.

        Raises:
            OSError: If the program or the folder does not exist, or the file cannot be executed.
        """
        name = os.path.join(folder, command[0]) if os.sep in command[0] else command[0]
        if (found := shutil.which(name, path=environment.get("PATH"))) is None:
            if os.path.isfile(path := os.path.join(folder, command[0])):
                how = f"'python {command[0]}'" if command[0].endswith(".py") else "it with the program that runs it"
                raise PermissionError(13, f"{command[0]} is a file that cannot be run; give {how}", path)
            raise FileNotFoundError(2, "the program does not exist", command[0])
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *_killed_with_parent(),
            found,
            *command[1:],
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        self._transport = transport

    async def wait(self) -> Ended:
        """Wait until it has ended by itself, with all of its children."""
        await self._exited.wait()
        await self.end()
        assert self._transport is not None
        code = self._transport.get_returncode()
        return Ended(1 if code is None else code, self._stdout.decode(errors="replace"), self.stderr)

    @property
    def stderr(self) -> str:
        """The end of what it has written there so far."""
        return self._stderr.decode(errors="replace")

    async def forget_stdout(self) -> None:
        """Forget what it has printed so far."""
        self._stdout.clear()

    async def end(self) -> None:
        """End what is left of it: with SIGTERM and two seconds for its first process, with SIGKILL for all others."""
        if self._transport is None:
            return
        group = self._transport.get_pid()
        if not self._exited.is_set():
            _signal_group(group, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exited.wait(), TERM_SECONDS)
        _signal_group(group, signal.SIGKILL)
        await asyncio.to_thread(_kill_marked, self._mark)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), TERM_SECONDS)
        with suppress(TimeoutError):  # what is in the pipes is still to be read
            await asyncio.wait_for(self._pipes_closed.wait(), _PIPE_SECONDS)
        self._transport.close()

    # -- what the event loop tells ---------------------------------------------------------------------------------

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the beginning of stdout and the end of stderr; more is read and dropped."""
        if fd == 1:
            self._stdout += data[: STDOUT_BYTES - len(self._stdout)]
        else:
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """The pipe is closed."""
        self._pipes_open -= 1
        if not self._pipes_open:
            self._pipes_closed.set()

    def process_exited(self) -> None:
        """The first process has ended."""
        self._exited.set()


@cache
def _killed_with_parent() -> tuple[str, ...]:
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return () if setpriv is None else (setpriv, "--pdeathsig", "KILL", "--")


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_marked(mark: bytes) -> None:
    """Kill every process of this user's with this in its environment, and those that they have started meanwhile."""
    processes = Path("/proc")
    if not processes.is_dir():
        return
    for _ in range(_ROUNDS):
        found = [pid for pid in _pids(processes) if mark in _environment(processes, pid)]
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _pids(processes: Path) -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir(processes) if name.isdigit() and int(name) != own]


def _environment(processes: Path, pid: int) -> bytes:
    try:
        return (processes / str(pid) / "environ").read_bytes()
    except OSError:  # another user's, or it has ended
        return b""


def tail(text: str, characters: int = 2_000) -> str:
    """The end of a text, from the beginning of a line, for a message."""
    text = text.strip()
    return text if len(text) <= characters else "…" + text[-characters:].partition("\n")[2]


def environment_of(more: Mapping[str, str]) -> dict[str, Any]:
    """This process's environment variables with others; what is on loopback is asked without a proxy."""
    variables = {**os.environ, **more}
    hosts = {"127.0.0.1", "localhost"}
    for name in ("NO_PROXY", "no_proxy"):
        given = [host for host in os.environ.get(name, "").split(",") if host.strip()]
        variables[name] = ",".join([*given, *sorted(hosts - set(given))])
    return variables
