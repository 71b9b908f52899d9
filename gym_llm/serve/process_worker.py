"""A worker in a process of this machine, as the server sees it; `gym_llm.serve.server_worker` tells the protocol."""

from __future__ import annotations

import asyncio
import pickle
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gym_llm.errors import InfrastructureError
from gym_llm.serve.forwarding import Place
from gym_llm.serve.server_worker import WorkerOrder, packed, packed_length

_MAIN = "import sys; from gym_llm.serve.server_worker import main; main(sys.argv[1])"
_END_SECONDS = 45.0  # a little more than a `teardown` may take


class WorkerFailed(InfrastructureError):
    """A worker cannot be started; the message says why."""


class ProcessWorker:
    """A worker in a process of its own. See `gym_llm.serve.worker_processes.Worker`."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self.place: Place

    @classmethod
    async def start(cls, order: WorkerOrder) -> ProcessWorker:
        """Start the process, and wait until it is ready to open the port.

        Raises:
            WorkerFailed: If it cannot serve what it is to.
        """
        ours, theirs = socket.socketpair()
        # In a session of its own: Ctrl-C is the parent's to handle.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _MAIN, str(theirs.fileno())),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        worker = cls(process, ours)
        try:
            worker._reader, worker._writer = await asyncio.open_connection(sock=ours)
            worker._writer.write(packed(sys.path) + packed(order))
            said = await worker._receive()
            if not isinstance(said, Place):
                raise WorkerFailed(said or f"It ended with exit code {await process.wait()}.")
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await worker.end()
            raise
        worker.place = said
        return worker

    async def serve(self, places: Sequence[Place | None]) -> None:
        """Have it open the port."""
        await self.update(places)
        if (said := await self._receive()) is not None:
            raise WorkerFailed(said)

    async def update(self, places: Sequence[Place | None]) -> None:
        """Tell it where all workers are."""
        with suppress(OSError):
            self._writer.write(packed(list(places)))
            await self._writer.drain()

    async def wait(self) -> str:
        """Wait until it ends; how."""
        return f"exit code {await self._process.wait()}"

    async def end(self) -> None:
        """Have it end its sessions and itself."""
        self._control.close() if not hasattr(self, "_writer") else self._writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _receive(self) -> Any:
        try:
            length = packed_length(await self._reader.readexactly(4))
            return pickle.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            raise WorkerFailed(f"It ended with exit code {await self._process.wait()}.") from None
