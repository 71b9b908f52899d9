"""ServedFolder: the server of a hub folder of OpenEnv, which many episodes share.

It runs as a child process or in a sandbox machine. It ends with the last environment that uses it, or with this
process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from gym_llm.envs.theirs.folder_server import Output, ServerMachine, ServerProcess
from gym_llm.envs.theirs.frameworks import Framework
from gym_llm.envs.theirs.hub_folder import HubFolder
from gym_llm.envs.theirs.peer_process import PeerFailed
from gym_llm.envs.theirs.wires import Wire, WireError
from gym_llm.utils.secrets import is_secret_key

_POLL_SECONDS = 0.1
_SLOW_SECONDS = 5.0
_HUNG_SECONDS = 20.0


class ServedFolder:
    """The server of a hub folder.

    Args:
        framework: OpenEnv: its name begins that of the environment of Python.
        folder: Where the folder is.
        variables: Environment variables of the server. It gets a few of this process besides.
        start_seconds: How long the server may take until `GET /health` says that it is healthy.
        machine: Whether it runs in a sandbox machine.

    Raises:
        ValueError: If it is not a hub folder.
    """

    def __init__(
        self,
        framework: Framework,
        folder: str,
        variables: Mapping[str, str] | None,
        start_seconds: float,
        machine: bool = False,
    ) -> None:
        self._framework, self._folder = framework, HubFolder.read(folder)
        self._variables, self._seconds = dict(variables or {}), start_seconds
        self._is_in_machine = machine
        self._server: ServerProcess | ServerMachine | None = None
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
        """Return whether the server answers, or is only slow; one that has just died may still be a process.

        In a machine it may be a fork bomb, which runs until the machine ends. So there it has longer, and must answer.
        """
        if not self._url or self._server is None or self._server.ended() is not None:
            return False
        assert self._wire is not None
        try:
            async with asyncio.timeout(_HUNG_SECONDS if self._is_in_machine else _SLOW_SECONDS):
                await self._wire.ask("/health")
        except WireError:
            return False
        except TimeoutError:
            return not self._is_in_machine
        return True

    async def _start(self) -> None:
        python = await asyncio.to_thread(self._folder.python, self._framework)
        server: ServerProcess | ServerMachine
        if self._is_in_machine:
            server = ServerMachine(self._folder, python, self._variables)
        else:
            server = ServerProcess(self._folder, python, self._variables)
        self._server = server
        try:
            url, output = await server.start()
            self._wire = Wire(url)
            why = await self._healthy(self._wire, server)
        except BaseException:
            await self._end()
            raise
        if not why:
            self._url, self._has_run = url, True
            return
        await self._end()
        await self._fail(why, output)

    async def _fail(self, why: str, output: Output) -> None:
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

    async def _healthy(self, wire: Wire, server: ServerProcess | ServerMachine) -> str:
        """Return why the server is not healthy; nothing if it is."""
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    health = None
                    with contextlib.suppress(WireError):
                        health = await wire.value("/health")
                    if (end := server.ended()) is not None:
                        return f"{end} before it was healthy"
                    if isinstance(health, dict) and health.get("status") == "healthy":
                        return ""
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return f"was not healthy (GET /health on its port) within {self._seconds:g} s"

    async def _end(self) -> None:
        server, wire = self._server, self._wire
        self._server, self._wire, self._url = None, None, ""
        try:
            if server is not None:
                await server.end()
        finally:
            if wire is not None:
                await wire.close()
