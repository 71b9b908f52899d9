"""RayWorker: a worker on a machine of a Ray cluster, as an actor that the front reaches over TCP.

They speak HTTP, as workers of one machine do, with the secret in the headers. It is not encrypted, like all traffic
inside a Ray cluster.
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
from gym_llm.serve.server_worker import END_SECONDS, WorkerOrder
from gym_llm.utils.secrets import redact_streams

_HARDLY_ANY = 0.001  # CPUs reserved: with none, Ray does not look at the machine that was asked for


class ServerActor:
    """An `EnvServer` in an async Ray actor, which the front forwards requests to."""

    def __init__(self) -> None:
        relax_gc()
        redact_streams()
        self._server: EnvServer
        self._forwarding: Forwarding

    async def start(self, order: WorkerOrder) -> Place:
        """Open the server; return its place.

        Raises:
            UsageError: If the environments cannot be served on this machine.
        """
        import ray

        self._server, self._forwarding = order.server(ray.util.get_node_ip_address())
        await self._server.__aenter__()
        assert self._forwarding.place is not None
        return self._forwarding.place

    async def update(self, places: Sequence[Place | None]) -> None:
        """Note the places of all workers."""
        await close_clients(self._forwarding.update(places))

    async def run(self) -> None:
        """Wait until the process ends."""
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        """End all sessions."""
        await self._server.__aexit__(None, None, None)
        await self._forwarding.aclose()


class RayWorker:
    """A worker in a `ServerActor`. See `gym_llm.serve.server_worker.Worker`."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self._watch = watch()
        self._running = actor.run.remote()
        self.place: Place

    async def begin(self, order: WorkerOrder) -> None:
        """Start the server.

        Raises:
            UsageError: If the server cannot start.
        """
        try:
            self.place = await self._watch.result(self._actor.start.remote(order))
        except BaseException as error:
            self._ray.kill(self._actor)
            if isinstance(error, self._ray.exceptions.RayError):
                raise UsageError(str(getattr(error, "cause", None) or first_line(error))) from None
            raise

    async def serve(self, places: Sequence[Place | None]) -> None:
        """Send the worker the places of all workers; it serves already."""
        await self.update(places)

    async def update(self, places: Sequence[Place | None]) -> None:
        """Send the worker the places of all workers."""
        with suppress(self._ray.exceptions.RayError):  # it has died, which `wait` reports
            await self._watch.result(self._actor.update.remote(list(places)))

    async def wait(self) -> str:
        """Wait until the process has ended; return how it ended."""
        try:
            await self._watch.result(self._running)
        except Exception as error:
            return first_line(error)
        return "it ended"

    async def end(self) -> None:
        """End the worker and its sessions."""
        try:
            with suppress(self._ray.exceptions.RayError, TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self._watch.result(self._actor.aclose.remote())
        finally:
            self._ray.kill(self._actor)


def ray_starter(address: str) -> Callable[[WorkerOrder], Awaitable[RayWorker]]:
    """Return a function that starts workers, spread evenly over the machines of a cluster.

    Raises:
        RayUnavailable: If the cluster cannot be reached.
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
