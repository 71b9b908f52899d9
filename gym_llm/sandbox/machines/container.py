"""Machines in containers: docker or podman, by their command line."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import shlex
import shutil
import signal
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from gym_llm.errors import SandboxError, SandboxUnavailable, UsageError
from gym_llm.sandbox.machines.machine import KILLED, TIMED_OUT, MachineProblem
from gym_llm.sandbox.machines.machine_limits import ExecResult, MachineLimits, result_once
from gym_llm.sandbox.machines.rootfs import Image

_SECONDS = 180.0
_SAID = 500
_BYTES = 4 << 20
_ENTRY = 1 << 16  # of an archive, beside a file's bytes


class ContainerMachine:
    """A machine that is a container; `start` it before anything else.

    Args:
        program: `docker` or `podman`.
        image: Its name, as the container program knows it.
        limits: `cpus`, `memory_mb` and `processes` hold for the container; `storage_mb` is ignored.
        network: Whether it has a network.
    """

    def __init__(self, program: str, image: Image, limits: MachineLimits, *, network: bool = False) -> None:
        self.program, self.image, self.limits, self.network = program, image, limits, network
        self._name = f"gym_llm-{os.getpid()}-{os.urandom(6).hex()}"
        self._saved: set[str] = set()

    @staticmethod
    async def build(program: str, dockerfile: str | Path, timeout_sec: float) -> Image:
        """Have a Dockerfile built.

        Raises:
            UsageError: If that fails.
        """
        path = os.path.realpath(dockerfile)
        name = f"gym_llm/{hashlib.sha256(path.encode()).hexdigest()[:16]}"
        command = [program, "build", "--tag", name, "--file", path, os.path.dirname(path)]
        code, _, said = await run_program(command, b"", timeout_sec)
        if code:
            raise UsageError(f"{path}: {program} build ended with {code}: {_last(said)}")
        return Image(name, "", workdir="")

    async def start(self) -> ContainerMachine:
        """Have it run.

        Raises:
            SandboxUnavailable: If the program is not there, or does not start it.
        """
        if shutil.which(self.program) is None:
            raise SandboxUnavailable(f"No sandbox: {self.program} is not on PATH.")
        await self._create(self.image.name)
        return self

    async def exec(
        self,
        command: str,
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        timeout_sec: float = 120.0,
        user: str = "root",
    ) -> ExecResult:
        """Run `bash -c COMMAND` to its end, or for `timeout_sec` seconds by the clock."""
        inside = ["timeout", "-k", "5", f"{timeout_sec:g}", "bash", "-c", command]
        arguments = [
            *("exec", "--user", user, *(("--workdir", cwd) if cwd else ())),
            *(part for name, value in (env or {}).items() for part in ("--env", f"{name}={value}")),
            *(self._name, *inside),
        ]
        return await result_once([command, cwd, user], lambda: self._exec(arguments, timeout_sec))

    async def _exec(self, arguments: list[str], timeout_sec: float) -> ExecResult:
        most = self.limits.output_bytes
        code, stdout, stderr = await self._call(arguments, timeout_sec + _SECONDS, most=most)
        out, err = (text.decode("utf-8", "replace") for text in (stdout, stderr))
        return ExecResult(out, err, code, "wall" if code == TIMED_OUT else "memory" if code == KILLED else None)

    async def upload(self, path: str, files: bytes, *, replace: bool = False) -> None:
        """Unpack an archive in a folder."""
        await self._sure(f"{f'rm -rf {shlex.quote(path)}; ' if replace else ''}mkdir -p {shlex.quote(path)}")
        await self._must(["cp", "-", f"{self._name}:{path}"], files)

    async def download(self, path: str, limit: int = 1 << 20) -> bytes | None:
        """Return a file of at most `limit` bytes, or None if it is missing."""
        code, data, _ = await self._call(
            ["cp", "--follow-link", f"{self._name}:{path}", "-"], _SECONDS, most=limit + _ENTRY
        )
        if code:
            return None
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                member = archive.next()
                file = archive.extractfile(member) if member is not None and member.isreg() else None
                if member is None or file is None or member.size > limit:
                    raise MachineProblem(f"{path} is not a file, or has more than {limit} bytes.")
                return file.read()
        except tarfile.TarError as error:
            raise MachineProblem(f"{path} cannot be read: {error}.") from None

    async def seal(self, remove: Iterable[str]) -> None:
        """All that runs is ended by a restart of the container; these paths are gone."""
        await self._must(["restart", "--time", "0", self._name])
        if paths := " ".join(map(shlex.quote, remove)):
            await self._sure(f"rm -rf {paths}")

    async def snapshot(self) -> bytes:
        """The name of an image with all that is there now."""
        name = f"gym_llm/snapshot-{os.urandom(8).hex()}"
        await self._must(["commit", self._name, name])
        self._saved.add(name)
        return name.encode()

    async def restore(self, snapshot: bytes) -> None:
        """Go on in a container of that image."""
        await self._call(["rm", "--force", self._name], _SECONDS)
        await self._create(snapshot.decode())

    async def fork(self) -> ContainerMachine:
        """Return another container with the same files, started."""
        made = await ContainerMachine(self.program, self.image, self.limits, network=self.network).start()
        try:
            snapshot = await self.snapshot()
            self._saved.discard(name := snapshot.decode())
            made._saved.add(name)  # podman ends the containers of an image that it removes
            await made.restore(snapshot)
        except BaseException:
            await made.close()
            raise
        return made

    async def close(self) -> None:
        """Remove the container, and the images of its snapshots."""
        with contextlib.suppress(SandboxError):
            await self._call(["rm", "--force", self._name], _SECONDS)
            for name in self._saved:
                await self._call(["rmi", "--force", name], _SECONDS)

    async def _create(self, image: str) -> None:
        limits = self.limits
        arguments = [
            *("run", "--detach", "--name", self._name, "--network", "bridge" if self.network else "none"),
            *("--cpus", f"{limits.cpus:g}", "--memory", f"{limits.memory_mb}m", "--pids-limit", str(limits.processes)),
            *("--security-opt", "no-new-privileges", "--init", "--entrypoint", "sleep", image, "infinity"),
        ]
        code, _, said = await self._call(arguments, _SECONDS)
        if code:
            raise SandboxUnavailable(f"No sandbox: {_last(said)}")

    async def _sure(self, command: str) -> None:
        result = await self.exec(command)
        if result.return_code:
            raise SandboxError(f"A container could not do `{command[:100]}`: {_last(result.stderr.encode())}")

    async def _must(self, arguments: list[str], data: bytes = b"") -> None:
        code, _, said = await self._call(arguments, _SECONDS, data)
        if code:
            raise SandboxError(f"{self.program} {arguments[0]} ended with {code}: {_last(said)}")

    async def _call(
        self, arguments: list[str], seconds: float, data: bytes = b"", most: int = _BYTES
    ) -> tuple[int, bytes, bytes]:
        return await run_program([self.program, *arguments], data, seconds, most)


async def run_program(command: list[str], data: bytes, seconds: float, most: int = _BYTES) -> tuple[int, bytes, bytes]:
    """Return a command's exit code, and the first bytes of its output and its errors, however much it writes.

    Args:
        command: The program and its arguments.
        data: The input.
        seconds: How long it may take.
        most: The most bytes of the output and of the errors.

    Raises:
        SandboxUnavailable: If the program is missing.
        SandboxError: If it does not end in time.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        raise SandboxUnavailable(f"No sandbox: {error}.") from None
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    transport = process._transport  # type: ignore[attr-defined]
    try:
        async with asyncio.timeout(seconds):
            reading = _first(process.stdout, most), _first(process.stderr, most)
            _, stdout, stderr, code = await asyncio.gather(_give(process.stdin, data), *reading, process.wait())
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for number in range(3):  # a child in a session of its own may hold them open, and `wait` waits for them
            transport.get_pipe_transport(number).close()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise SandboxError(f"{command[0]} {command[1]} did not end in {seconds:.0f} seconds.") from None
        raise
    finally:
        transport.close()  # the end of a program may be known before the ends of its pipes
    return code, stdout, stderr


async def _first(stream: asyncio.StreamReader, most: int) -> bytes:
    kept = bytearray()
    while piece := await stream.read(1 << 16):
        kept += piece[: max(most - len(kept), 0)]
    return bytes(kept)


async def _give(stream: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
    stream.close()


def _last(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_SAID] if lines else "it said nothing"
