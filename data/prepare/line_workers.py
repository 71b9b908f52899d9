"""A function over a stream of chunks on all cores: results in order, memory bounded.

Workers are plain subprocesses, for the reasons given in `gym_llm.concurrency.processes`. Idle workers are in a queue. A
thread takes a worker, sends it one chunk and waits for the result, so the two sides never block each other. A worker
ends with its parent, because its connection closes.
"""

from __future__ import annotations

import functools
import pickle
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection, Pipe
from pkgutil import resolve_name
from queue import SimpleQueue
from typing import Any

from gym_llm.errors import DataError

_IN_FLIGHT = 3  # chunks per worker: one in work, one to go on with, one whose result waits for an earlier one
_COMMAND = (
    "import pickle, sys; fd, sys.path[:] = pickle.loads(bytes.fromhex(sys.argv[1])); "
    "from gym_llm.data.prepare.line_workers import _serve; _serve(fd)"
)


class ChunkWorkers(AbstractContextManager["ChunkWorkers"]):
    """Processes that turn chunks into results.

    Args:
        factory: `"module:name"` of a callable that makes the function of one chunk; `map` gives its arguments.
        count: Worker processes; 0 to do the work in this process, with the same results. They start with the first
            `map`.
    """

    def __init__(self, factory: str, count: int) -> None:
        self._factory = factory
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[tuple[subprocess.Popen[bytes], Connection]] = SimpleQueue()
        self._threads = ThreadPoolExecutor(max(count, 1))

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
            yield from map(resolve_name(self._factory)(*arguments), chunks)
            return
        setup = pickle.dumps((self._factory, arguments))
        while len(self._processes) < self._count:
            self._start_worker()
        results: deque[Future[Any]] = deque()
        for chunk in chunks:
            results.append(self._threads.submit(self._apply, setup, chunk))
            if len(results) >= _IN_FLIGHT * self._count:
                yield results.popleft().result()
        while results:
            yield results.popleft().result()

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._threads.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get()[1].close()
        self._processes.clear()

    def _start_worker(self) -> None:
        connection, theirs = Pipe()
        with theirs:
            setup = pickle.dumps((theirs.fileno(), sys.path)).hex()
            command = [sys.executable, "-P", "-c", _COMMAND, setup]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._processes.append(process)
        self._idle.put((process, connection))

    def _apply(self, setup: bytes, chunk: Any) -> Any:
        """Have an idle worker do a chunk; in a thread."""
        process, connection = self._idle.get()
        try:
            connection.send((setup, chunk))
            failure, result = connection.recv()
        except (EOFError, OSError):
            code = process.wait()
            how = f"was killed by signal {-code} (out of memory?)" if code < 0 else f"ended with exit code {code}"
            raise DataError(f"A worker process {how}.") from None
        finally:
            self._idle.put((process, connection))
        if failure:
            raise RuntimeError(f"A worker process failed:\n{failure}")
        return result


@functools.lru_cache(maxsize=1)
def _make_function(setup: bytes) -> Callable[[Any], Any]:
    """The function of one chunk, made once per worker for all chunks of a `map`."""
    factory, arguments = pickle.loads(setup)
    function: Callable[[Any], Any] = resolve_name(factory)(*arguments)
    return function


def _serve(descriptor: int) -> None:
    """Run a worker until its parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    connection = Connection(descriptor)
    with suppress(EOFError, OSError):
        while True:
            setup, chunk = connection.recv()
            try:
                answer = "", _make_function(setup)(chunk)
            except Exception:
                answer = traceback.format_exc(), None
            connection.send(answer)
