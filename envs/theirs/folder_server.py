"""The server of a hub folder, running: a child process of this one, or the only command of a sandbox machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO
from urllib.parse import quote

from gym_llm.envs.theirs.hub_folder import HubFolder
from gym_llm.envs.theirs.peer_process import PeerFailed, kept_variables
from gym_llm.errors import SandboxError
from gym_llm.sandbox.backends import mounts_of
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.machine import BubblewrapMachine, ExecResult
from gym_llm.sandbox.machines.rootfs import HOST, Image, ImageCache

_SERVER = Path(__file__).parent / "hub_server.py"
_PLACE = "/opt/gym_llm"
_PORT = 8000
_FOREVER = 1e9
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_KEPT_OUTPUT = 8_192
_END_SECONDS = 2.0
_VARIABLES = {"PYTHONUNBUFFERED": "1"}


class ServerProcess:
    """A server as a child process, which listens on a port of 127.0.0.1.

    Args:
        folder: Its folder.
        python: The interpreter that has its packages.
        variables: Its environment variables, beside a few of this process.
    """

    def __init__(self, folder: HubFolder, python: Path, variables: Mapping[str, str]) -> None:
        self._folder, self._python, self._variables = folder, python, variables
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> tuple[str, Output]:
        """Start it; returns its address and its output.

        Raises:
            PeerFailed: If the interpreter cannot be started.
        """
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port, number = bound.getsockname()[1], bound.fileno()
            try:
                self._process = subprocess.Popen(
                    [str(self._python), str(_SERVER), str(self._folder.path), self._folder.app, str(number), str(port)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=[number],
                    env={**kept_variables(), **_VARIABLES, **self._variables},
                    start_new_session=True,
                )
            except OSError as error:
                raise PeerFailed(f"{self._python} cannot be started: {error.strerror}.") from None
        assert self._process.stdout is not None
        return f"http://127.0.0.1:{port}", Output(self._process.stdout)

    def ended(self) -> str | None:
        """Return how it has ended; None if it runs."""
        code = None if self._process is None else self._process.poll()
        return None if code is None else f"ended with {code}"

    async def end(self) -> None:
        """End it and what it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)  # it may have children in other groups, such as browsers
        try:
            await asyncio.to_thread(process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


class ServerMachine:
    """A server in a sandbox machine without network, which sees its folder and its packages read-only.

    The machine listens at a Unix socket of this one. Its first connection has the server's output, see `hub_server`.

    Args:
        folder: Its folder.
        python: The interpreter that has its packages.
        variables: Its environment variables.
    """

    def __init__(self, folder: HubFolder, python: Path, variables: Mapping[str, str]) -> None:
        self._folder, self._python, self._variables = folder, python, variables
        self._machine: BubblewrapMachine | None = None
        self._command: asyncio.Task[ExecResult] | None = None

    async def start(self) -> tuple[str, Output]:
        """Start the machine, and it; returns its address and its output.

        Raises:
            SandboxUnavailable: If this machine has no bubblewrap, or the sandbox does not start.
        """
        cache = ImageCache()
        image = await asyncio.to_thread(_image, cache, self._folder.path, self._python)
        self._machine = machine = await BubblewrapMachine(image, listens=True).start()
        cache.close()
        await machine.upload(_PLACE, tree.pack_files([(_SERVER.name, 0o644, _SERVER.read_bytes())]))
        output = socket.socket(socket.AF_UNIX)
        output.connect(machine.socket_path)
        command = [_inside(self._python), f"{_PLACE}/{_SERVER.name}", str(self._folder.path), self._folder.app]
        running = machine.exec(
            f"exec {shlex.join([*command, '3', str(_PORT)])}",
            env={**_VARIABLES, **self._variables},
            timeout_sec=_FOREVER,
        )
        self._command = asyncio.create_task(running)
        pipe = open(output.detach(), "rb", buffering=0)  # noqa: SIM115 (closed at its end)
        return f"http+unix://{quote(machine.socket_path, safe='')}", Output(pipe)

    def ended(self) -> str | None:
        """Return how it has ended; None if it runs."""
        if self._command is None or not self._command.done():
            return None
        if (error := self._command.exception()) is not None:
            return f"ended: {error}".rstrip(".")
        found = self._command.result()
        if found.limit is not None:
            return f"passed its machine's limit of {found.limit}, and ended"
        return f"ended with {found.return_code}"

    async def end(self) -> None:
        """End the machine."""
        machine, self._machine = self._machine, None
        if self._command is not None:
            self._command.cancel()
            with contextlib.suppress(asyncio.CancelledError, SandboxError):
                await self._command
        if machine is not None:
            await machine.close()


class Output:
    """The end of what a server writes, which a thread reads: a full pipe would stop it.

    Args:
        pipe: What it is read from; it is closed at its end.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._kept = pipe, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe, contextlib.suppress(ConnectionError):
            while chunk := os.read(self._pipe.fileno(), 1 << 16):
                self._kept = (self._kept + chunk)[-_KEPT_OUTPUT:]

    def text(self, secrets: list[str]) -> str:
        """Return it without secrets, as lines of printable characters."""
        self._thread.join(1.0)
        text = _ESCAPE.sub("", self._kept.decode("utf-8", "replace"))
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return "\n".join("".join(filter(str.isprintable, line)) for line in text.splitlines())


def _image(cache: ImageCache, folder: Path, python: Path) -> Image:
    """Return this machine's own system with a folder and an interpreter, each at its own place."""
    found = mounts_of(str(python))
    prefixes = [*found.shown, *_prefixes(Path(_inside(python)))]
    places = sorted(dict.fromkeys([str(folder), *prefixes]))
    shown = [place for place in places if not place.startswith(tuple(f"{each}/" for each in ("/usr", *places)))]
    image = cache.image(HOST)
    mounts = tuple((place, place.lstrip("/")) for place in shown if place != "/usr")
    return replace(image, mounts=(*image.mounts, *mounts), hidden=tuple({*image.hidden, *found.hidden}))


def _inside(python: Path) -> str:
    """Return an interpreter's path with its environment's real folder; its last part may be a link to another one."""
    return f"{os.path.realpath(python.parent)}/{python.name}"


def _prefixes(python: Path) -> list[str]:
    """Return the folders that the links from an environment's interpreter to the real one go through."""
    found = []
    while python.is_symlink():
        python = Path(os.path.normpath(python.parent / os.readlink(python)))
        found.append(str(python.parent.parent))
    return found
