"""Machines: a root file system of its own in which commands are run for as long as an episode lives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gym_llm.errors import SandboxError, SandboxUnavailable
from gym_llm.sandbox.backends import MACHINE_USER, bubblewrapped_machine, machine_mount, own_packages, own_python
from gym_llm.sandbox.channel import Channel
from gym_llm.sandbox.inside import framing, tree
from gym_llm.sandbox.machines.machine_limits import ExecResult, MachineLimits, result_once
from gym_llm.sandbox.machines.rootfs import Image
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import reply_timeout

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMED_OUT, KILLED, NOT_STARTED = 124, 137, 126
_MEGA = 1 << 20
_START_SECONDS = 120.0
_LONGEST = 1e9  # seconds: a program ends when its episode does
_FILES_SECONDS = 180.0
_LARGEST = 512 * _MEGA
_LAST_BYTES = 2000


class MachineProblem(SandboxError):
    """A machine cannot do what it was asked to, and goes on: a file is too large, its storage is full."""


class Machine(Protocol):
    """A root file system in which commands are run; see `open_machine`."""

    async def exec(
        self,
        command: str,
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        timeout_sec: float = 120.0,
        user: str = "root",
    ) -> ExecResult:
        """Run `bash -c COMMAND` to its end. What it leaves running goes on with the next command."""

    async def upload(self, path: str, files: bytes, *, replace: bool = False) -> None:
        """Unpack an archive (`tree.pack`, `tree.pack_files`) in a folder, which is emptied first if it is replaced."""

    async def download(self, path: str, limit: int = _MEGA) -> bytes | None:
        """Return a file, or None if it is missing."""

    async def seal(self, remove: Iterable[str]) -> None:
        """Make ready for a verifier: nothing runs any more, these paths are gone, and bash is that of the image."""

    async def snapshot(self) -> bytes:
        """All that differs from the image."""

    async def restore(self, snapshot: bytes) -> None:
        """Be as at a snapshot of a machine of the same image; nothing runs."""

    async def fork(self) -> Machine:
        """Return another machine with the same files; nothing runs in it."""

    async def close(self) -> None:
        """End all that runs, and forget the files."""


class BubblewrapMachine:
    """A machine behind bubblewrap; `start` it before anything else.

    Its first process (`inside.machine_process`) runs the commands. Its changes are memory, in no folder of this
    machine; they and all its processes are gone when this process closes it, or ends.

    Args:
        image: Its root file system.
        limits: What it may take.
        network: Whether it has this machine's network; else it has only itself on 127.0.0.1.
        overlay: False to copy the image, as is done where the kernel has no overlay for users.
        listens: Whether it listens at the Unix socket `socket_path` of this machine. The first command accepts the
            connections, from descriptor 3.
        layers: Folders of this machine that are shown at the same places, read-only; without this package's data.
    """

    def __init__(
        self,
        image: Image,
        limits: MachineLimits | None = None,
        *,
        network: bool = False,
        overlay: bool = True,
        listens: bool = False,
        layers: Sequence[str] = (),
    ) -> None:
        self.image = image
        self.layers = tuple(dict.fromkeys(os.path.realpath(layer) for layer in layers))
        self.limits = limits or MachineLimits()
        self.network = network
        self.overlay = overlay
        self._listening = tempfile.TemporaryDirectory(prefix="gym-llm-machine-") if listens else None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the machine)
        self._busy = asyncio.Lock()
        self._awaited: asyncio.Future[framing.Message] | None = None
        self._is_poked = False
        self._spares: deque[tuple[BubblewrapMachine, asyncio.Task[BubblewrapMachine]]] = deque()

    async def start(self) -> BubblewrapMachine:
        """Have it run.

        Raises:
            SandboxUnavailable: If it does not start; the message has its last words.
        """
        listening = self._listening.name if self._listening is not None else None
        if listening is not None and os.geteuid() == 0:
            os.chown(listening, MACHINE_USER, MACHINE_USER)
        shown = (*(source for source, _ in self.image.mounts if not _is_system(source)), *self.layers)
        places = {source: machine_mount(place) for place, source in enumerate(shown)}
        settings: dict[str, object] = {
            "storage_bytes": self.limits.storage_mb * _MEGA,
            "overlay": self.overlay,
            "mounts": [
                *([places.get(source, source), name] for source, name in self.image.mounts),
                *([places[layer], layer.lstrip("/")] for layer in self.layers),
            ],
            "hidden": [*self.image.hidden, *own_packages(self.layers)],
            "filter": True,
        }
        mine, its = socket.socketpair()
        with its:
            try:
                command = bubblewrapped_machine(
                    own_python(packages=False),
                    self.image.folder,
                    its.fileno(),
                    settings,
                    self.network,
                    shown,
                    listening,
                )
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._words,
                    pass_fds=(its.fileno(),),
                    env={"PATH": "/usr/bin:/bin"},  # bubblewrap's own can be read inside
                    start_new_session=True,
                )
            except OSError as error:
                mine.close()
                raise SandboxUnavailable(f"No sandbox: {error}.") from None
        self._channel = Channel.loose(mine)
        self._channel.last_words = self._last_words
        try:
            header, _ = await self._channel.receive(_START_SECONDS)
            self.overlay = header["overlay"]
            if self.network:
                names = Path("/etc/resolv.conf").read_bytes()
                await self.upload("/etc", tree.pack_files([("resolv.conf", 0o644, names)]))
        except BaseException as error:
            await self.close()
            if isinstance(error, SandboxError):
                raise SandboxUnavailable(f"No sandbox: {error}") from None
            raise
        return self

    @property
    def socket_path(self) -> str:
        """The path of the Unix socket at which a machine listens that was made so."""
        assert self._listening is not None
        return f"{self._listening.name}/socket"

    async def exec(
        self,
        command: str,
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        timeout_sec: float = 120.0,
        user: str = "root",
    ) -> ExecResult:
        """Run `bash -c COMMAND` to its end; commands wait for each other.

        Args:
            command: A command for bash, or for sh where bash is missing.
            cwd: The folder that it starts in.
            env: Variables beside PATH, LANG and HOME.
            timeout_sec: Seconds that it may sleep, and, times `cpus`, compute.
            user: Its name or number. All users own all files.

        Raises:
            SandboxError: If the sandbox failed; never for what the command does.
        """
        run = self.limits.of_a_run(timeout_sec)
        environment = {"PATH": PATH, "LANG": "C.UTF-8", **self.image.environment, **(env or {})}
        header = {"kind": "exec", "command": command, "cwd": cwd, "user": user, "environment": environment}
        return await result_once([command, cwd, user], lambda: self._exec(header, run))

    async def _exec(self, header: dict[str, Any], run: Limits) -> ExecResult:
        try:
            answer, output = await self._ask({**header, "limits": run.as_json()}, [b""], reply_timeout(run))
        except _Problem as problem:
            return ExecResult("", f"{problem}\n", NOT_STARTED)
        stdout, stderr = (piece.decode("utf-8", "replace") for piece in output)
        return ExecResult(stdout, stderr, _return_code(answer), answer["limit"], answer["cpu_seconds"])

    async def upload(self, path: str, files: bytes, *, replace: bool = False) -> None:
        """Unpack an archive in a folder.

        Args:
            path: The folder, which is made if it is not there.
            files: What `tree.pack` or `tree.pack_files` gave.
            replace: Whether what is there goes first.

        Raises:
            SandboxError: If the machine could not take it; its storage may be full.
        """
        await self._asked({"kind": "put", "path": path, "replace": replace}, [files])

    async def download(self, path: str, limit: int = _MEGA) -> bytes | None:
        """Return a file of at most `limit` bytes, or None if it is missing. A folder comes as an archive.

        Raises:
            SandboxError: If it is neither a file nor a folder, or too large.
        """
        answer, output = await self._asked({"kind": "get", "path": path, "limit": limit}, [])
        return output[0] if answer["found"] else None

    async def seal(self, remove: Iterable[str]) -> None:
        """Make ready for a verifier: see `Machine.seal`."""
        await self._asked({"kind": "verify", "remove": list(remove)}, [])

    async def snapshot(self) -> bytes:
        """All that differs from the image, compressed; for `restore`, here or in another machine of the same image.

        Raises:
            MachineProblem: If it is more than 512 MiB.
        """
        _, output = await self._asked({"kind": "snapshot", "limit": _LARGEST}, [])
        return output[0]

    async def restore(self, snapshot: bytes) -> None:
        """End what runs, and have the file system as it was then."""
        await self._asked({"kind": "restore"}, [snapshot])

    async def fork(self) -> BubblewrapMachine:
        """Return another machine with the same files, started; nothing runs in it.

        The image is shared. Only what has changed is copied. Most of the time is the start of the other machine, which
        `prepare_forks` does earlier.

        Raises:
            MachineProblem: If that is more than 512 MiB.
            SandboxUnavailable: If the other machine does not start.
        """
        if not self._spares:
            self.prepare_forks(1)
        made, started = self._spares.popleft()
        try:
            changes = await self.snapshot()
            await started
            await made.restore(changes)
        except BaseException:
            await _end_spare(made, started)
            raise
        return made

    def prepare_forks(self, count: int) -> None:
        """Start this many machines for the next forks now; those that are not used end with this machine."""
        for _ in range(count):
            made = BubblewrapMachine(
                self.image,
                self.limits,
                network=self.network,
                overlay=self.overlay,
                listens=self._listening is not None,
                layers=self.layers,
            )
            self._spares.append((made, asyncio.ensure_future(made.start())))

    async def close(self) -> None:
        """End all that runs; the files are gone with it."""
        while self._spares:
            await _end_spare(*self._spares.popleft())
        channel, self._channel = self._channel, None
        process, self._process = self._process, None
        awaited, self._awaited = self._awaited, None
        if awaited is not None and awaited is not asyncio.current_task():
            awaited.cancel()
            await asyncio.wait({awaited})
        if channel is not None:
            await channel.close()
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            await asyncio.to_thread(process.wait)
        self._words.close()
        if self._listening is not None:
            self._listening.cleanup()

    async def _asked(self, header: dict[str, Any], pieces: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        try:
            return await self._ask(header, pieces, _FILES_SECONDS)
        except _Problem as problem:
            raise MachineProblem(f"A machine could not {header['kind']} {header.get('path', '')}: {problem}.") from None

    async def _ask(
        self, header: dict[str, Any], pieces: list[bytes], seconds: float
    ) -> tuple[dict[str, Any], list[bytes]]:
        await self.poke()
        async with self._busy:
            answer, output = await self._exchange(header, pieces, seconds)
        if "problem" in answer:
            raise _Problem(answer["problem"])
        return answer, output

    async def _exchange(self, header: dict[str, Any], pieces: list[bytes], seconds: float) -> framing.Message:
        if self._channel is None:
            raise SandboxError("The machine is closed.", failure_kind="session_lost")
        try:
            await self._channel.send(header, pieces)
            return await self._channel.receive(seconds)
        except BaseException:
            await self.close()  # an answer that comes later would be taken for the next one's
            raise

    # -- a program beside the commands: `gym_llm.sandbox.machines.resident_program` ----------------------------------

    async def begin(self, header: dict[str, Any], stdin: bytes) -> None:
        """Start a program that runs beside commands; `ended` waits for its end.

        Args:
            header: `argv`, `cwd`, `user`, `environment`, `limits` and `error_bytes`.
            stdin: Its standard input.

        Raises:
            MachineProblem: If it cannot be started.
        """
        try:
            await self._ask({"kind": "begin", **header}, [stdin], _FILES_SECONDS)
        except _Problem as problem:
            raise MachineProblem(f"{problem}.") from None

    async def listen(self, ports: Sequence[int]) -> list[socket.socket]:
        """Open ports on the machine's loopback; return the sockets that accept their connections.

        Raises:
            MachineProblem: If a port is taken.
        """
        await self.poke()
        async with self._busy:
            answer, _ = await self._exchange({"kind": "listen", "ports": list(ports)}, [], _FILES_SECONDS)
            if "problem" in answer:
                raise MachineProblem(f"A machine could not open ports: {answer['problem']}.")
            assert self._channel is not None
            found = await self._channel.descriptors(len(ports))
        return [socket.socket(fileno=descriptor) for descriptor in found]

    async def ended(self) -> framing.Message:
        """Wait for the end of the program that `begin` started; commands run meanwhile.

        Raises:
            SandboxError: If the machine is closed or fails.
        """
        while True:
            async with self._busy:
                self._is_poked = False
                self._awaited = asyncio.ensure_future(self._exchange({"kind": "await"}, [], _LONGEST))
                try:
                    answer, output = await self._awaited
                except asyncio.CancelledError:
                    if self._channel is None and not _is_cancelled():
                        raise SandboxError("The machine is closed.", failure_kind="session_lost") from None
                    raise
                finally:
                    self._awaited = None
            if "problem" in answer:
                raise SandboxError(f"A machine lost its program: {answer['problem']}.")
            if answer["ended"]:
                return answer, output
            await asyncio.sleep(0)

    async def forget_output(self) -> None:
        """Drop what the program that `begin` started has written on its standard output until now."""
        await self._asked({"kind": "forget"}, [])

    async def kill(self) -> None:
        """End all that runs in the machine, and close its ports."""
        await self._asked({"kind": "kill"}, [])

    async def poke(self) -> None:
        """Have `ended` make way for another request."""
        if self._awaited is not None and not self._is_poked and self._channel is not None:
            self._is_poked = True
            await self._channel.send({"kind": "poke"}, [])

    def _last_words(self) -> str:
        self._words.seek(0)
        lines = self._words.read(_LAST_BYTES).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:500].rstrip(".") if lines else ""


class _Problem(Exception):
    """Raised for a request that the machine refuses, with its message."""


def _is_system(path: str) -> bool:
    return path == "/usr" or path.startswith("/usr/")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _return_code(answer: dict[str, Any]) -> int:
    if answer["limit"] in ("cpu", "wall"):
        return TIMED_OUT
    if answer["limit"] is not None:
        return KILLED
    return int(answer["exit_code"]) if answer["exit_code"] is not None else 128 + int(answer["signal"])


async def _end_spare(machine: BubblewrapMachine, started: asyncio.Task[BubblewrapMachine]) -> None:
    await asyncio.wait({started})
    await machine.close()


def pack_folder(folder: str | Path) -> bytes:
    """A folder of this machine as an archive for `upload`.

    Raises:
        SandboxError: If it has more than 512 MiB.
    """
    try:
        return tree.pack(os.fspath(folder), _LARGEST)
    except tree.TooLarge as error:
        raise SandboxError(f"{folder} is too large for a machine: {error}.") from None
