"""Runs programs that a model wrote where they can do no harm."""

from __future__ import annotations

import asyncio
import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from gym_llm.concurrency.answered_once import answered_once, current_memory
from gym_llm.errors import SandboxError
from gym_llm.sandbox.backends import Mounts, make_backend, own_python
from gym_llm.sandbox.channel import Channel
from gym_llm.sandbox.memory import SessionMemory
from gym_llm.sandbox.run_limits import Limits
from gym_llm.utils.json_codec import dumps

Limit = Literal["cpu", "wall", "memory", "processes", "output"]
_LONG = 12  # times what a run may take: the supervisor ends it long before
_MAIN = "main.py"
_LAST_BYTES = 2000  # of standard error, in which its last line is looked for
_LONGEST_PART, _LONGEST_NAME = 255, 1000  # bytes of a file's or folder's name, characters of all of it


@dataclass(frozen=True, slots=True)
class RunResult:
    """The end of a run, and what it left.

    Attributes:
        limit: The limit that it passed, for which it was killed; else None.
        exit_code: The exit code of its first process; None if a signal ended it.
        signal: The signal that ended its first process, else None.
        stdout: The first bytes of it, up to `Limits.output_bytes`.
        stderr: Likewise.
        cpu_seconds: Processor time of all its processes.
        wall_seconds: Seconds by the clock.
        peak_bytes: The most memory that it had at a time, roughly.
        files: The files to collect that it left, by name.
    """

    limit: Limit | None
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    files: dict[str, bytes] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON value."""
        files = {name: _as_text(data) for name, data in self.files.items()}
        return {**asdict(self), "stdout": _as_text(self.stdout), "stderr": _as_text(self.stderr), "files": files}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunResult:
        """Return the result of which `as_json` made this value."""
        files = {name: b64decode(data) for name, data in value["files"].items()}
        output = {name: b64decode(value[name]) for name in ("stdout", "stderr")}
        return cls(**{**value, **output, "files": files})

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with exit code 0."""
        return self.limit is None and self.exit_code == 0

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error(self) -> str | None:
        """Why it is not `ok`: the limit, the signal, or the last line of standard error; None if it is."""
        if self.ok:
            return None
        if self.limit is not None:
            return f"it passed its limit of {self.limit}"
        if self.signal is not None:
            return f"signal {self.signal} ended it"
        last = self.stderr[-_LAST_BYTES:].decode("utf-8", "replace").rstrip().rpartition("\n")[2]
        return last or f"it ended with {self.exit_code}"


class Sandbox:
    """A sandbox for programs: no network, the files of this machine read-only or hidden, limits on every resource.

    Each run has processes, memory and a /tmp of its own, and leaves nothing behind. Never give a program its expected
    output: compare outside.

    A sandbox belongs to an event loop. Environments share one: `await sandbox_for(env)`.

    Args:
        backend: `bubblewrap`, `docker`, `podman`, `apptainer`, or `unsafe`, which protects nothing.
        mounts: The files of this machine that are shown, and the interpreter that runs Python; by default this one.
        image: The image of containers: its name, or the path of an apptainer image.
        preload: Modules that Python programs find imported already.
        concurrency: Runs at a time; None for one per core. More wait. Cells of sessions count, idle sessions do not.
        memory_bytes: The most memory of idle sessions together; beyond it the largest is ended. None for half of what
            this machine, or the control group of this process, has available.

    Raises:
        ValueError: If an argument is invalid.
        SandboxUnavailable: If this machine does not have the backend.
    """

    def __init__(
        self,
        backend: str = "bubblewrap",
        *,
        mounts: Mounts | None = None,
        image: str | None = None,
        preload: Sequence[str] = (),
        concurrency: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        if memory_bytes is not None and memory_bytes < 1:
            raise ValueError(f"memory_bytes is a number of bytes, got {memory_bytes!r}.")
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency is the number of runs at a time, got {concurrency!r}.")
        self.mounts = mounts or own_python()
        self._variables = {
            **{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
            **{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            **self.mounts.environment,
        }
        settings = {
            **{"packages": list(self.mounts.packages), "preload": list(preload), "filter": backend != "unsafe"},
            "environment": self._variables,
        }
        self._backend = make_backend(backend, self.mounts, settings, image)
        self.memory = SessionMemory(memory_bytes)
        self.slots = asyncio.Semaphore(concurrency or len(os.sched_getaffinity(0)))

    async def __aenter__(self) -> Sandbox:
        await self._backend.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End every run and session, and wait until they are gone."""
        await self._backend.close()

    async def python(
        self, code: str, *, stdin: bytes = b"", files: Mapping[str, bytes] | None = None, **options: Any
    ) -> RunResult:
        """Run a Python program as `python main.py` would.

        Args:
            code: The program.
            stdin: What it reads.
            files: Beside it, by name.
            **options: Of `run`.
        """
        named = {**(files or {}), _MAIN: code.encode("utf-8", "replace")}
        return await self.run(None, stdin=stdin, files=named, **options)

    async def run(
        self,
        argv: Sequence[str] | None,
        *,
        stdin: bytes = b"",
        files: Mapping[str, bytes] | None = None,
        executable: Sequence[str] = (),
        collect: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        loopback: bool = False,
        reserves: bool = False,
    ) -> RunResult:
        """Run a command in a folder of its own.

        Args:
            argv: The command; None for the file `main.py`, in the sandbox's own interpreter, which need not start.
            stdin: What it reads.
            files: By name, in the folder that it starts in.
            executable: Those of the files that can be executed.
            collect: Names of files to bring back, of those it leaves.
            environment: Variables beside PATH, HOME and LANG.
            limits: What it may take.
            loopback: Whether it may use sockets, with only itself on 127.0.0.1.
            reserves: Whether it reserves much more memory than it uses, as Java, Go and Node.js do: only what is used
                is limited then.

        Raises:
            ValueError: If a file's name leads out of the folder, or cannot be one beside the others.
            SandboxError: If the sandbox failed, at a second try too; never for what the program does.
        """
        limits = limits or Limits()
        named = dict(files or {})
        _check_names(named)
        header = {
            "kind": "run",
            "argv": None if argv is None else list(argv),
            "main": _MAIN,
            "files": [[name, 0o755 if name in executable else 0o644] for name in named],
            "collect": list(collect),
            "loopback": loopback,
            "reserves": reserves,
            **self.common(limits, environment),
        }
        pieces = [stdin, *named.values()]
        if current_memory() is None:
            return await self._run(header, pieces, collect, limits)
        return await answered_once(
            "run",
            dumps([header, [hashlib.sha256(piece).hexdigest() for piece in pieces]]),
            lambda: self._run(header, pieces, collect, limits),
            encode=RunResult.as_json,
            decode=RunResult.from_json,
        )

    async def _run(
        self, header: dict[str, Any], pieces: list[bytes], collect: Sequence[str], limits: Limits
    ) -> RunResult:
        async with self.slots:
            try:
                answer, output = await self._exchange(header, pieces, limits)
            except SandboxError:  # its sandbox's first process ended, say; another is started
                answer, output = await self._exchange(header, pieces, limits)
        left = zip(collect, answer["collected"], output[2:], strict=True)
        return result_of(answer, output, {name: data for name, is_there, data in left if is_there})

    async def _exchange(
        self, header: dict[str, Any], pieces: list[bytes], limits: Limits
    ) -> tuple[dict[str, Any], list[bytes]]:
        channel = await self.channel()
        try:
            await channel.send(header, pieces)
            return await channel.receive(reply_timeout(limits))
        finally:
            await channel.close()

    async def channel(self) -> Channel:
        """Return a channel to a new supervisor, which waits for its run."""
        return await self._backend.channel()

    def common(self, limits: Limits, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the fields that the header of every request has."""
        variables = {**self._variables, **(environment or {})}
        return {"limits": limits.as_json(), "environment": variables}


def _as_text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _check_names(names: Iterable[str]) -> None:
    paths: set[str] = set()
    folders: set[str] = set()
    for name in names:
        parts = name.split("/")
        long = any(len(part.encode("utf-8", "replace")) > _LONGEST_PART for part in parts)
        if "" in parts or ".." in parts or "\0" in name or long or len(name) > _LONGEST_NAME or not _is_text(name):
            raise ValueError(f"files have names in the folder of the run, got {name[:300]!r}.")
        path = "/".join(part for part in parts if part != ".")
        if path in paths or not path:
            raise ValueError(f"files have different names, got {name!r} for a second one or a folder.")
        paths.add(path)
        folders.update("/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 1))
    if both := paths & folders:
        raise ValueError(f"{min(both)!r} is the name of a file and of a folder of files.")


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def result_of(answer: dict[str, Any], output: list[bytes], files: dict[str, bytes]) -> RunResult:
    """Return a supervisor's answer as a result."""
    names = ("limit", "exit_code", "signal", "cpu_seconds", "wall_seconds", "peak_bytes")
    return RunResult(stdout=output[0], stderr=output[1], files=files, **{name: answer[name] for name in names})


def reply_timeout(limits: Limits) -> float:
    """Return the seconds after which a sandbox that has not answered never will."""
    return _LONG * (limits.cpu_seconds + limits.wall_seconds) + 60
