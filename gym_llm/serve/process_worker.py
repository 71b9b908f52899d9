"""ProcessWorker: a worker in a process of this machine; both ends of the connection between parent and worker.

The parent starts the process with one end of a `multiprocessing` connection, and they exchange pickled messages:

1. The parent sends its `sys.path`, then the `WorkerOrder`.
2. The worker sends its `Place`, or an error message.
3. The parent sends the places of all workers. The worker opens the port and sends None, or an error message.
4. The parent sends the places again whenever a worker has moved.

When the parent closes the connection or dies, the worker ends its sessions and itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from gym_llm.errors import InfrastructureError
from gym_llm.serve.forwarding import Place, close_clients
from gym_llm.serve.server_worker import END_SECONDS, WorkerOrder

_MAIN = "import sys; from gym_llm.serve.process_worker import main; main(sys.argv[1])"
_EXIT_SECONDS = 60.0


class WorkerFailed(InfrastructureError):
    """Raised when a worker cannot be started; the message says why."""


class ProcessWorker:
    """A worker in a process of its own. See `gym_llm.serve.server_worker.Worker`."""

    def __init__(self, process: asyncio.subprocess.Process, connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self.place: Place

    @classmethod
    async def start(cls, order: WorkerOrder) -> ProcessWorker:
        """Start the process, and wait until it is ready to open the port.

        Raises:
            WorkerFailed: If it cannot serve what the order says.
        """
        ours, theirs = Pipe()
        # In a session of its own: the parent handles Ctrl-C.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _MAIN, str(theirs.fileno())),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        worker = cls(process, ours)
        try:
            await worker._send(sys.path)
            await worker._send(order)
            answer = await worker._receive()
            if not isinstance(answer, Place):
                raise WorkerFailed(answer or f"It ended with exit code {await process.wait()}.")
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await worker.end()
            raise
        worker.place = answer
        return worker

    async def serve(self, places: Sequence[Place | None]) -> None:
        """Make the worker open the port."""
        await self.update(places)
        if (answer := await self._receive()) is not None:
            raise WorkerFailed(answer)

    async def update(self, places: Sequence[Place | None]) -> None:
        """Send the worker the places of all workers."""
        await self._send(list(places))

    async def wait(self) -> str:
        """Wait until the process ends; return its exit code."""
        return f"exit code {await self._process.wait()}"

    async def end(self) -> None:
        """End the worker and its sessions."""
        self._connection.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _send(self, message: Any) -> None:
        with suppress(OSError):  # it has ended, which `wait` reports
            await asyncio.to_thread(self._connection.send, message)

    async def _receive(self) -> Any:
        """Return the worker's next message.

        Raises:
            WorkerFailed: If it has ended.
        """
        try:
            return await asyncio.to_thread(self._connection.recv)
        except (EOFError, OSError):
            raise WorkerFailed(f"It ended with exit code {await self._process.wait()}.") from None


# -- in the worker's process -------------------------------------------------------------------------------------------


class _Parent:
    """The worker's end of the connection.

    Attributes:
        is_gone: Whether the parent has closed its end, or has died.
    """

    def __init__(self, descriptor: int) -> None:
        self.is_gone = False
        self._connection = Connection(descriptor)

    def send(self, message: Any) -> None:
        with suppress(OSError):  # it has died, which `receive` reports
            self._connection.send(message)

    def receive(self) -> Any:
        """Return the next message; None if the parent is gone."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            self.is_gone = True
            return None


async def _serve(parent: _Parent, order: WorkerOrder) -> None:
    from gym_llm.concurrency.relaxed_gc import freeze_gc
    from gym_llm.records.failures import reason

    loop, messages = asyncio.get_running_loop(), asyncio.Queue[Any]()

    def listen() -> None:
        while (message := parent.receive()) is not None:
            loop.call_soon_threadsafe(messages.put_nowait, message)
        # An environment may block the loop: then the process ends without it.
        threading.Timer(_EXIT_SECONDS, os._exit, (1,)).start()
        loop.call_soon_threadsafe(messages.put_nowait, None)

    threading.Thread(target=listen, daemon=True).start()
    loop.add_signal_handler(signal.SIGTERM, messages.put_nowait, None)
    try:
        server, forwarding = order.server()
        parent.send(forwarding.place)
        if (places := await messages.get()) is None:
            return
        forwarding.update(places)
        await server.__aenter__()
    except Exception as error:
        parent.send(reason(error))
        return
    freeze_gc()
    parent.send(None)
    try:
        while (places := await messages.get()) is not None:
            await close_clients(forwarding.update(places))
    finally:
        await server.__aexit__(None, None, None)
        await forwarding.aclose()


def main(descriptor: str) -> None:
    """Serve until the parent closes the connection."""
    from gym_llm.concurrency.relaxed_gc import relax_gc
    from gym_llm.records.failures import reason
    from gym_llm.serve.event_loop import loop_factory
    from gym_llm.utils.secrets import redact_streams

    parent = _Parent(int(descriptor))
    redact_streams()
    relax_gc()
    sys.path[:] = parent.receive() or []
    try:
        order = parent.receive()
    except Exception as error:  # the order needs a module that cannot be imported here
        parent.send(reason(error))
        return
    if order is not None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(parent, order))
        if parent.is_gone:  # else another worker follows, in the same folder
            order.clean_up()
    os._exit(0)  # without waiting for threads that hang
