"""A worker on a machine of a Ray cluster: an actor that the front, which clients ask, reaches by TCP.

What goes between them is HTTP, as between workers of one machine, with the secret in its headers, and as open as the
rest of what a Ray cluster says to itself: its machines are among themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from gym_llm.concurrency.relaxed_gc import relax_gc
from gym_llm.errors import UsageError
from gym_llm.rollouts.ray.codec import first_line
from gym_llm.rollouts.ray.connection import connect, nodes, watch
from gym_llm.serve.env_server import EnvServer
from gym_llm.serve.forwarding import Forwarding, Place, close_clients
from gym_llm.serve.server_worker import WorkerOrder
from gym_llm.utils.secrets import redact_streams

_HARDLY_ANY = 0.001  # CPUs reserved: with none, Ray does not look at the machine that was asked for
_END_SECONDS = 45.0  # a little more than a `teardown` may take


class ServerActor:
    """An `EnvServer` in a process of its own (an async Ray actor), which the front asks."""

    def __init__(self) -> None:
        relax_gc()
        redact_streams()
        self._server: EnvServer
        self._forwarding: Forwarding

    async def start(self, order: WorkerOrder) -> Place:
        """Begin to answer; where.

        Raises:
            UsageError: If the environments cannot be served from here.
        """
        import ray

        listener = order.listener(ray.util.get_node_ip_address())
        self._forwarding = forwarding = Forwarding(order.secret, order.number, order.generation, listener)
        # Nobody is told of the port that it opens beside, on its machine alone.
        own = {"host": "127.0.0.1", "port": 0, "token": order.secret}
        self._server = EnvServer(**{**order.options, **own}, forwarding=forwarding)
        await self._server.__aenter__()
        assert forwarding.place is not None
        return forwarding.place

    async def update(self, places: Sequence[Place | None]) -> None:
        """Take note of where all workers are."""
        await close_clients(self._forwarding.update(places))

    async def run(self) -> None:
        """Wait until the process ends."""
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        """End all sessions."""
        await self._server.__aexit__(None, None, None)
        await self._forwarding.aclose()


class RayWorker:
    """A `ServerActor` as the server sees it. See `gym_llm.serve.worker_processes.Worker`."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self._watch = watch()
        self._running = actor.run.remote()
        self.place: Place

    async def begin(self, order: WorkerOrder) -> None:
        """Start the server.

        Raises:
            UsageError: If it cannot.
        """
        try:
            self.place = await self._watch.result(self._actor.start.remote(order))
        except BaseException as error:
            self._ray.kill(self._actor)
            if isinstance(error, self._ray.exceptions.RayError):
                raise UsageError(str(getattr(error, "cause", None) or first_line(error))) from None
            raise

    async def serve(self, places: Sequence[Place | None]) -> None:
        """Have it know all workers."""
        await self.update(places)

    async def update(self, places: Sequence[Place | None]) -> None:
        """Tell it where all workers are."""
        with suppress(self._ray.exceptions.RayError):  # it has died, which `wait` says
            await self._watch.result(self._actor.update.remote(list(places)))

    async def wait(self) -> str:
        """Wait until its process has ended; how."""
        try:
            await self._watch.result(self._running)
        except Exception as error:
            return first_line(error)
        return "it ended"

    async def end(self) -> None:
        """Have it end its sessions and itself."""
        try:
            with suppress(self._ray.exceptions.RayError, TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._watch.result(self._actor.aclose.remote())
        finally:
            self._ray.kill(self._actor)


def ray_starter(address: str) -> Callable[[WorkerOrder], Awaitable[RayWorker]]:
    """What starts workers on a cluster's machines, evenly.

    Raises:
        RayUnavailable: If there is no such cluster.
    """
    ray = connect(address)
    machines = nodes(ray)

    async def start(order: WorkerOrder) -> RayWorker:
        options: dict[str, Any] = {"num_cpus": _HARDLY_ANY, "max_restarts": 0}
        if machines:
            options["scheduling_strategy"] = machines[order.number % len(machines)]
        worker = RayWorker(ray, ray.remote(ServerActor).options(**options).remote())
        await worker.begin(order)
        return worker

    return start
