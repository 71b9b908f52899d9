"""A function over a stream of chunks on all cores: results in order, memory bounded.

Workers are plain subprocesses, for the reasons given in `gym_llm.concurrency.processes`. Each has a few chunks at most,
dealt out in turn, so that a source of any size flows through; what a worker is sent it reads in a thread, so that
neither side can wait for the other to read. A worker ends when its parent does: its connection closes.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from gym_llm.errors import DataError

_IN_FLIGHT = 3  # chunks per worker: one in work, one read, one on its way
_COMMAND = (
    "import pickle, sys; fd, sys.path[:] = pickle.loads(bytes.fromhex(sys.argv[1])); "
    "from gym_llm.data.prepare.workers import _serve; _serve(fd)"
)


class ChunkWorkers:
    """Processes that turn chunks into results.

    Args:
        factory: `"module:name"` of a callable that makes the function of one chunk; `map` gives its arguments.
        count: Worker processes; 0 to do the work in this process, with the same results. They start with the first
            `map`.
    """

    def __init__(self, factory: str, count: int) -> None:
        self._factory = factory
        self._count = count
        self._connections: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def map(self, arguments: tuple[Any, ...], chunks: Iterable[Any]) -> Iterator[Any]:
        """Apply `factory(*arguments)` to each chunk.

        Args:
            arguments: For the factory, in each worker; picklable.
            chunks: Picklable; taken as the workers get on. An error it raises passes through.

        Yields:
            The results, in the chunks' order.

        Raises:
            RuntimeError: If the function raised, with its traceback.
            DataError: If a worker died, e.g. because memory ran out.
        """
        if not self._count:
            yield from map(_load(self._factory)(*arguments), chunks)
            return
        self._start()
        for connection in self._connections:
            self._send(connection, (self._factory, arguments))
        waiting: deque[Connection] = deque()
        for number, chunk in enumerate(chunks):
            connection = self._connections[number % self._count]
            self._send(connection, (None, chunk))
            waiting.append(connection)
            if len(waiting) >= _IN_FLIGHT * self._count:
                yield self._receive(waiting.popleft())
        while waiting:
            yield self._receive(waiting.popleft())

    def close(self) -> None:
        """End the workers."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.kill()
            process.wait()
        self._connections.clear()
        self._processes.clear()

    def __enter__(self) -> Self:
        """The workers themselves."""
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End them."""
        self.close()

    def _start(self) -> None:
        while len(self._processes) < self._count:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                setup = pickle.dumps((theirs.fileno(), sys.path)).hex()
                command = [sys.executable, "-P", "-c", _COMMAND, setup]
                self._processes.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL))
                self._connections.append(Connection(ours.detach()))

    def _send(self, connection: Connection, message: Any) -> None:
        try:
            connection.send_bytes(pickle.dumps(message, protocol=5))
        except OSError:
            raise self._death(connection) from None

    def _receive(self, connection: Connection) -> Any:
        try:
            failure, result = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            raise self._death(connection) from None
        if failure:
            raise RuntimeError(f"A worker process failed:\n{failure}")
        return result

    def _death(self, connection: Connection) -> DataError:
        code = self._processes[self._connections.index(connection)].wait()
        how = f"was killed by signal {-code} (out of memory?)" if code < 0 else f"ended with exit code {code}"
        return DataError(f"A worker process {how}.")


def _load(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return loaded


def _serve(descriptor: int) -> None:
    """Run a worker until its parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    connection = Connection(descriptor)
    messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                messages.put(connection.recv_bytes())
        except (EOFError, OSError):
            messages.put(None)

    threading.Thread(target=read, daemon=True).start()
    function: Callable[[Any], Any] | None = None
    failure = ""
    while (message := messages.get()) is not None:
        result = None
        try:
            factory, content = pickle.loads(message)
            if factory is not None:
                failure = ""
                function = _load(factory)(*content)
                continue
            if function is not None and not failure:
                result = function(content)
        except Exception:
            failure = traceback.format_exc()
            if factory is not None:
                continue  # the answer to the first chunk will say so
        try:
            connection.send_bytes(pickle.dumps((failure, result), protocol=5))
        except OSError:
            break
    os._exit(0)  # without waiting for the reading thread
