"""ServedFolder: the server of a hub folder of OpenEnv, as a child process that many episodes share.

A hub folder has an `openenv.yaml`, which names the application, and a `pyproject.toml`, which names its packages. They
get an environment of Python of their own, as frameworks do, unless the folder has one: `.venv`, as `uv sync` makes it.
The server listens on a port of 127.0.0.1 and ends with the last environment that uses it, or with this process. It is
not in a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gym_llm.envs.theirs.environments import python_of
from gym_llm.envs.theirs.frameworks import Framework
from gym_llm.envs.theirs.peer_process import PeerFailed, kept_variables
from gym_llm.envs.theirs.wires import Wire, WireError
from gym_llm.utils.secrets import is_secret_key

_SERVER = Path(__file__).parent / "hub_server.py"
_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_LEAST_PYTHON = re.compile(r">=\s*3\.(\d+)")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MOST_BYTES = 1 << 20
_KEPT_OUTPUT = 8_192
_POLL_SECONDS = 0.1
_END_SECONDS = 2.0
_SLOW_SECONDS = 5.0


@dataclass(frozen=True)
class HubFolder:
    """A folder as OpenEnv's hub has it.

    Attributes:
        path: Where it is.
        app: The application: `module:name`.
        packages: What pip installs.
        pythons: The version of Python that it needs, if it is a newer one; else ().
    """

    path: Path
    app: str
    packages: tuple[str, ...]
    pythons: tuple[str, ...]

    @classmethod
    def read(cls, folder: str) -> HubFolder:
        """Read `openenv.yaml` and `pyproject.toml`.

        Raises:
            ValueError: If one of them is missing or invalid.
        """
        path = Path(folder).expanduser().absolute()
        if not path.is_dir():
            raise ValueError(f"There is no folder {path}; the address of a server begins with http://.")
        manifest, project = path / "openenv.yaml", path / "pyproject.toml"
        try:
            app = _object(yaml.safe_load(_text(manifest))).get("app", "server.app:app")
        except (yaml.YAMLError, RecursionError):
            raise ValueError(f"{manifest} is not YAML.") from None
        if not isinstance(app, str) or not _APP.fullmatch(app):
            raise ValueError(f"{manifest}: `app` is {str(app)[:80]!r}, not a name such as server.app:app.")
        try:
            about = _object(tomllib.loads(_text(project)).get("project"))
        except (tomllib.TOMLDecodeError, RecursionError):
            raise ValueError(f"{project} is not TOML.") from None
        packages = about.get("dependencies", [])
        if not isinstance(packages, list) or not all(isinstance(each, str) and each[:1].isalnum() for each in packages):
            raise ValueError(f"{project}: `dependencies` is not a list of packages.")
        least = _LEAST_PYTHON.search(str(about.get("requires-python", "")))
        is_newer = least is not None and int(least[1]) > sys.version_info.minor
        return cls(path, app, tuple(packages), (f"3.{least[1]}",) if least is not None and is_newer else ())

    def python(self, framework: Framework) -> Path:
        """Return the interpreter that has the folder's packages; install them if need be.

        Raises:
            SandboxUnavailable: If they cannot be installed.
        """
        own = self.path / ".venv" / "bin" / "python"
        if own.exists():
            return own
        return python_of(replace(framework, packages=self.packages, options=(), pythons=self.pythons))


class ServedFolder:
    """The server of a hub folder.

    Args:
        framework: OpenEnv: its name begins that of the environment of Python.
        folder: Where the folder is.
        variables: Environment variables of the server. It gets a few of this process besides.
        start_seconds: How long the server may take until `GET /health` says that it is healthy.

    Raises:
        ValueError: If it is not a hub folder.
    """

    def __init__(
        self, framework: Framework, folder: str, variables: Mapping[str, str] | None, start_seconds: float
    ) -> None:
        self._framework, self._folder = framework, HubFolder.read(folder)
        self._variables, self._seconds = dict(variables or {}), start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: Wire | None = None
        self._url = self._failure = ""
        self._has_run = False
        self._lock = asyncio.Lock()

    async def url(self) -> str:
        """Return the address; start the server if it does not run. One that has never started is not tried again.

        Raises:
            PeerFailed: If it ends, or is not healthy in time; says what it wrote last.
            SandboxUnavailable: If its packages cannot be installed.
        """
        if await self._runs():
            return self._url
        async with self._lock:
            if self._failure:
                raise PeerFailed(self._failure)
            if not await self._runs():
                await self._end()
                await self._start()
            return self._url

    async def aclose(self) -> None:
        """End the server and what it has started."""
        await self._end()

    async def _runs(self) -> bool:
        """Return whether the server answers, or is only slow; one that has just died may still be a process."""
        if not self._url or self._process is None or self._process.poll() is not None:
            return False
        assert self._wire is not None
        try:
            async with asyncio.timeout(_SLOW_SECONDS):
                await self._wire.ask("/health")
        except WireError:
            return False
        except TimeoutError:
            pass
        return True

    async def _start(self) -> None:
        python = await asyncio.to_thread(self._folder.python, self._framework)
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port = bound.getsockname()[1]
            process = self._process = self._popen(python, bound.fileno(), port)
        url = f"http://127.0.0.1:{port}"
        output, self._wire = _Output(process), Wire(url)
        try:
            why = await self._healthy(self._wire, process)
        except BaseException:
            await self._end()
            raise
        if not why:
            self._url, self._has_run = url, True
            return
        await self._end()
        failure = f"The server of {self._folder.path} {why}"
        secrets = [value for name, value in self._variables.items() if is_secret_key(name)]
        text = await asyncio.to_thread(output.text, secrets)
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
        failure += f"; it wrote last: {last[:300]}" if last else "; it wrote nothing."
        if not self._has_run:
            self._failure = failure
        error = PeerFailed(failure)
        error.add_note(text)
        raise error

    def _popen(self, python: Path, bound: int, port: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [str(python), str(_SERVER), str(self._folder.path), self._folder.app, str(bound), str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[bound],
                env={**kept_variables(), "PYTHONUNBUFFERED": "1", **self._variables},
                start_new_session=True,
            )
        except OSError as error:
            raise PeerFailed(f"{python} cannot be started: {error.strerror}.") from None

    async def _healthy(self, wire: Wire, process: subprocess.Popen[bytes]) -> str:
        """Return why the server is not healthy; nothing if it is."""
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    health = None
                    with contextlib.suppress(WireError):
                        health = await wire.value("/health")
                    if (code := process.poll()) is not None:
                        return f"ended with {code} before it was healthy"
                    if isinstance(health, dict) and health.get("status") == "healthy":
                        return ""
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return f"was not healthy (GET /health on its port) within {self._seconds:g} s"

    async def _end(self) -> None:
        process, wire = self._process, self._wire
        self._process, self._wire, self._url = None, None, ""
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
            if wire is not None:
                await wire.close()


class _Output:
    """The end of what a process writes, which a thread reads: a full pipe would stop the process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._pipe, self._kept = process.stdout, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._pipe is not None
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), 1 << 16):
                self._kept = (self._kept + chunk)[-_KEPT_OUTPUT:]

    def text(self, secrets: list[str]) -> str:
        """Return it without secrets, as lines of printable characters."""
        self._thread.join(1.0)
        text = _ESCAPE.sub("", self._kept.decode("utf-8", "replace"))
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return "\n".join("".join(filter(str.isprintable, line)) for line in text.splitlines())


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode()
    except OSError:
        raise ValueError(f"{file.parent} is not an OpenEnv folder: it has no {file.name}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not text.") from None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
