"""Back ends with a process of their own for each run: containers, and no protection at all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox.channel import Channel

_LAST_BYTES = 2000
_END_SECONDS = 20.0


class PerRun:
    """Starts a command for each run, which speaks over its standard input and output.

    Args:
        command: The command line.
        probe: A command line that succeeds where the back end works, e.g. `docker version`; None for no such check.
        stop: Makes the command line that ends a run which did not end by itself, from its `name`; None if killing the
            command's processes does.
    """

    def __init__(
        self,
        command: Callable[[str], Sequence[str]],
        *,
        probe: Sequence[str] | None = None,
        stop: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        self._command = command
        self._probe = probe
        self._stop = stop
        self._count = 0
        self._live: set[_OneRun] = set()

    async def start(self) -> None:
        """Check that it works here.

        Raises:
            SandboxUnavailable: If it does not; the message has the command's own words.
        """
        if self._probe is None:
            return
        name = self._probe[0]
        if shutil.which(name) is None:
            raise SandboxUnavailable(f"No sandbox: {name} is not on PATH.")
        try:
            process = await asyncio.create_subprocess_exec(
                *self._probe, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            async with asyncio.timeout(_END_SECONDS):
                _, said = await process.communicate()
        except TimeoutError:
            process.kill()
            raise SandboxUnavailable(f"No sandbox: {name} does not answer.") from None
        if process.returncode:
            raise SandboxUnavailable(f"No sandbox: {_last_line(said) or f'{name} does not work'}.")

    async def channel(self) -> Channel:
        """Return a channel to the supervisor of a new run.

        Raises:
            SandboxUnavailable: If the command cannot be started.
        """
        self._count += 1
        name = f"gym_llm-{os.getpid()}-{id(self):x}-{self._count}"
        mine, its = socket.socketpair()
        folder = tempfile.TemporaryDirectory(prefix="gym_llm-run-")
        words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the run)
        try:
            with its:
                process: subprocess.Popen[bytes] = subprocess.Popen(
                    list(self._command(name)),
                    stdin=its.fileno(),
                    stdout=its.fileno(),
                    stderr=words.fileno(),
                    cwd=folder.name,
                    start_new_session=True,
                )
        except OSError as error:
            mine.close()
            words.close()
            folder.cleanup()
            raise SandboxUnavailable(f"No sandbox: {error}.") from None
        channel = await Channel.over(mine)
        run = _OneRun(process, folder, name)
        self._live.add(run)

        async def end() -> None:
            self._live.discard(run)
            words.close()
            await asyncio.to_thread(run.end, self._stop)

        def last_words() -> str:
            words.seek(0)
            return _last_line(words.read(_LAST_BYTES))

        channel.on_close = end
        channel.last_words = last_words
        return channel

    async def close(self) -> None:
        """End every run."""
        await asyncio.gather(*(asyncio.to_thread(run.end, self._stop) for run in list(self._live)))
        self._live.clear()


class _OneRun:
    def __init__(self, process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str], name: str) -> None:
        self._process = process
        self._folder = folder
        self._name = name

    def end(self, stop: Callable[[str], Sequence[str]] | None) -> None:
        """Wait until it is gone: its channel is closed, so it ends by itself, or is made to."""
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            if stop is not None:
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    subprocess.run(stop(self._name), capture_output=True, check=False, timeout=_END_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        with contextlib.suppress(OSError):
            self._folder.cleanup()


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500].rstrip(".") if lines else ""
