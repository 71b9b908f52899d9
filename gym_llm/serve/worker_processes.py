"""EnvWorkers: environments served by several processes on one port, here or on the machines of a Ray cluster."""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any, Self

from gymnasium.envs.registration import EnvSpec

from gym_llm.core.registry.env_files import env_spec
from gym_llm.data.files.reading import absolute_source
from gym_llm.errors import UsageError
from gym_llm.protocols.http.http_server import url_of
from gym_llm.serve.env_server import EnvServer, name_of
from gym_llm.serve.forwarding import Forwarding, Place, close_clients
from gym_llm.serve.process_worker import ProcessWorker
from gym_llm.serve.server_worker import Worker, WorkerOrder
from gym_llm.serve.sessions import CAPACITY
from gym_llm.utils.secrets import redacted_logger

_LIVED_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
logger = redacted_logger(__name__)


class EnvWorkers:
    """Serves environments from several processes, as `EnvServer` does from one.

    A session lives in one process; all processes take its requests (see `gym_llm.serve.forwarding`). A process that
    dies is restarted. Its sessions are lost, and their clients get an error that says so. The kernel resets connections
    that it gave to the dying process: their clients connect again. All processes end with this one, even if it is
    killed.

    Args:
        env_ids: As for `EnvServer`.
        workers: The number of processes.
        ray_address: The address of a Ray cluster: the workers are actors on its machines, and a front in this process
            forwards to them. None for processes of this machine.
        **options: As for `EnvServer`; `capacity` is that of all workers together.

    Attributes:
        url: `http://127.0.0.1:8000`, while it runs.
        env_ids: The ids of the environments.
        protocols: The names of the protocols.

    Raises:
        UsageError: As `EnvServer`. On entering, if a worker cannot begin.
        RayUnavailable: On entering, if the cluster cannot be reached.
    """

    def __init__(
        self,
        env_ids: str | EnvSpec | Sequence[str | EnvSpec],
        *,
        workers: int,
        ray_address: str | None = None,
        capacity: int = CAPACITY,
        **options: Any,
    ) -> None:
        if workers < 1:
            raise UsageError(f"workers is 1 or more, got {workers}.")
        checked = EnvServer(env_ids, capacity=capacity, **options)  # what is wrong is said now
        self.env_ids = [env.env_id for env in checked.envs]
        self.protocols = checked.protocols
        self.host, self.port = checked.host, checked.port
        self._ray_address = ray_address
        names = [env_ids] if isinstance(env_ids, (str, EnvSpec)) else list(env_ids)
        specs = [env_spec(name) for name in names]  # other processes do not know what this one registered
        kwargs = options.get("env_kwargs")
        if kwargs and len(names) > 1:
            kwargs = {spec.id: kwargs.get(name_of(name)) for name, spec in zip(names, specs, strict=True)}
        tasks = options.get("tasks")
        self._options = {
            **options,
            "env_ids": specs,
            "env_kwargs": kwargs,
            "tasks": absolute_source(tasks) if isinstance(tasks, str) else tasks,
            "capacity": -(-capacity // workers),
            "secret": options.get("secret") or secrets.token_bytes(32),
        }
        self._secret = secrets.token_urlsafe(32)
        self._workers: list[Worker | None] = [None] * workers
        self._generations = [0] * workers
        self._front: Forwarding | None = None
        self._start: Callable[[WorkerOrder], Awaitable[Worker]] = ProcessWorker.start
        self._folder: str | None = None
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The address, `http://127.0.0.1:8000`, while the server runs."""
        return url_of(self.host, self.port)

    async def __aenter__(self) -> Self:
        """Start the workers."""
        async with AsyncExitStack() as stack:
            if self._ray_address is None:
                self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gym-llm-serve-"))
                reserved = stack.enter_context(_reserve(self.host, self.port))
                self._options["port"] = self.port = reserved.getsockname()[1]
            else:
                from gym_llm.serve.ray_worker import ray_starter

                self._start = ray_starter(self._ray_address)
            stack.push_async_callback(self._end_workers)
            numbers = range(len(self._workers))
            begun = await asyncio.gather(*map(self._begin, numbers), return_exceptions=True)
            if failures := [error for error in begun if isinstance(error, BaseException)]:
                raise failures[0]
            await asyncio.gather(*(worker.serve(self._places) for worker in self._workers if worker is not None))
            if self._ray_address is not None:
                await self._open_front(stack)
            watching = [asyncio.create_task(self._watch(number)) for number in numbers]
            stack.push_async_callback(_cancel, watching)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the sessions and the workers."""
        await self._stack.aclose()

    async def _open_front(self, stack: AsyncExitStack) -> None:
        self._front = Forwarding(self._secret)
        self._front.update(self._places)
        stack.push_async_callback(self._front.aclose)
        front = EnvServer(**{**self._options, "capacity": 1, "port": self.port}, forwarding=self._front)
        await stack.enter_async_context(front)
        self.port = front.port

    @property
    def _places(self) -> list[Place | None]:
        return [None if worker is None else worker.place for worker in self._workers]

    async def _begin(self, number: int) -> Worker:
        order = WorkerOrder(number, self._generations[number], self._secret, self._options, self._folder)
        try:
            self._workers[number] = worker = await self._start(order)
        except Exception as error:
            raise UsageError(f"Worker {number} cannot begin: {error}") from error
        return worker

    async def _watch(self, number: int) -> None:
        pause = 0.0
        while True:
            began, worker = monotonic(), self._workers[number]
            how = await worker.wait() if worker is not None else "it could not begin"
            pause = 0.0 if monotonic() - began > _LIVED_SECONDS else min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            logger.warning("Worker %d has ended (%s), and its sessions with it: it is started again.", number, how)
            self._workers[number] = None
            await self._tell_places()
            await asyncio.sleep(pause)
            self._generations[number] += 1
            try:
                again = await self._begin(number)
                await self._tell_places(but=again)
                await again.serve(self._places)
            except Exception as error:
                logger.error("%s", error)

    async def _tell_places(self, but: Worker | None = None) -> None:
        told = [worker for worker in self._workers if worker is not None and worker is not but]
        await asyncio.gather(*(worker.update(self._places) for worker in told))
        if self._front is not None:
            await close_clients(self._front.update(self._places))

    async def _end_workers(self) -> None:
        ending = [worker.end() for worker in self._workers if worker is not None]
        await asyncio.gather(*ending, return_exceptions=True)


def _reserve(host: str, port: int) -> socket.socket:
    """Return a socket that reserves a port for the workers that share it, without listening.

    Raises:
        UsageError: If another server listens on the port.
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    try:
        with socket.create_server(address[:2], family=family):
            pass  # a server that shares its port, too, would not be noticed otherwise
        reserved = socket.socket(family)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(address)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"Cannot listen on {host}, port {port} ({why}): choose another port.") from None
    return reserved


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
