"""EnvServer: environments over HTTP and WebSocket, for clients of OpenEnv, NeMo Gym and MCP, on one port."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any, Self

from aiohttp import web

from gym_llm.data.files.jsonl import loads
from gym_llm.did_you_mean import did_you_mean
from gym_llm.errors import UsageError
from gym_llm.http_metrics import Metrics
from gym_llm.http_server import Door, Unwelcome, listening, url_of
from gym_llm.limits import REQUEST_BYTES, limit
from gym_llm.rollout.factory import EnvFactory
from gym_llm.secrets import redacted_logger
from gym_llm.serve.episode import BadRequest, EpisodeFailed
from gym_llm.serve.openapi import openapi
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import CAPACITY, IDLE_SECONDS, AtCapacity, Sessions, UnknownSession
from gym_llm.serve.wires import Handler, MakeWire, NotJSON, Route, Wire, json_answer
from gym_llm.types import Row

WIRES: dict[str, str] = {
    "openenv": "gym_llm.serve.openenv:OpenEnvWire",
    "nemo": "gym_llm.serve.nemo:NemoWire",
    "mcp": "gym_llm.serve.mcp:McpWire",
}
"""The wires by name, each a `MakeWire`; where two share an address the first that claims a request answers it."""
_STATUS: dict[type[BaseException], int] = {
    BadRequest: 400,
    NotJSON: 400,
    UnknownSession: 404,
    AtCapacity: 503,
    EpisodeFailed: 500,
}
logger = redacted_logger(__name__)


class EnvServer:
    """Serves environments over HTTP and WebSocket.

    An async context manager: the port is opened, and closed. The first environment is at the root, and each at its own
    name: `http://127.0.0.1:8000/Weather-v0`. Every client plays sessions of its own (see `Sessions`).

    Args:
        env_ids: Registered ids, or files that have an environment; one or several.
        wires: Which of `WIRES` are spoken, or others as `module:attribute`; None for all of `WIRES`.
        tasks: As for `gym_llm.rollout`, of a single environment.
        env_kwargs: Further arguments of a single environment; of several, by what `env_ids` calls them.
        host: The address to listen on; one that is not this machine's own needs a token.
        port: 0 for any that is free.
        token: What clients send as `Authorization: Bearer TOKEN`; None for no check.
        capacity: How many sessions there are at most.
        idle_seconds: How long a session is kept that nobody asks.
        step_timeout: Seconds that a reset or a step may wait; None for no limit.
        secret: What keys that sign are derived from; b"" for a random one.

    Attributes:
        url: `http://127.0.0.1:8000`, while it runs.
        sessions: What is being played.

    Raises:
        UsageError: If there is no such wire, tasks are given for several environments, two have one name, or the
            address needs a token; by entering it, if the port cannot be opened.
        gymnasium.error.Error: If an id is unknown.
        DataError: If tasks are wrong.

    >>> async def main():
    ...     async with EnvServer("gym_llm/Weather-v0", port=0) as server:
    ...         print(server.url)
    """

    def __init__(
        self,
        env_ids: str | Sequence[str],
        *,
        wires: Iterable[str] | None = None,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
        capacity: int = CAPACITY,
        idle_seconds: float = IDLE_SECONDS,
        step_timeout: float | None = 600.0,
        secret: bytes = b"",
    ) -> None:
        env_ids = [env_ids] if isinstance(env_ids, str) else list(env_ids)
        kwargs_of = {env_ids[0]: env_kwargs or {}} if len(env_ids) == 1 else env_kwargs or {}
        if tasks is not None and len(env_ids) != 1:
            raise UsageError("tasks are one environment's: serve one, or leave them out.")
        self._door = Door(host, token)
        wires = list(WIRES if wires is None else wires)
        self._makers = {name: _maker(name) for name in sorted(wires, key=[*WIRES, *wires].index)}
        factories = [EnvFactory(env_id, tasks=tasks, env_kwargs=kwargs_of.get(env_id)) for env_id in env_ids]
        self.sessions = Sessions(
            {factory.env_id: factory for factory in factories},
            capacity=capacity,
            idle_seconds=idle_seconds,
            step_timeout=step_timeout,
        )
        secret = secret or secrets.token_bytes(32)
        self.envs = [ServedEnv(factory, self.sessions, secret=secret, wires=wires) for factory in factories]
        if not self.envs or len({env.name for env in self.envs}) < len(self.envs):
            raise UsageError(f"A server has one environment or more, of different names; got {', '.join(env_ids)}.")
        self.host = host
        self.port = port
        self._stack = AsyncExitStack()

    @property
    def wires(self) -> list[str]:
        """The wires that it speaks."""
        return list(self._makers)

    @property
    def url(self) -> str:
        """See the class."""
        return url_of(self.host, self.port)

    async def __aenter__(self) -> Self:
        """Open the port."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.sessions.aclose)
            self.port = await stack.enter_async_context(listening(self.application(), self.host, self.port))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the port and end all sessions."""
        await self._stack.aclose()

    def application(self) -> web.Application:
        """All its routes, as an aiohttp application."""
        metrics = Metrics(self.sessions.metrics)
        middlewares: Any = [metrics.count, self._guard]
        application = web.Application(client_max_size=limit(REQUEST_BYTES), middlewares=middlewares)
        application.on_shutdown.append(self._dismiss)
        application.router.add_get("/health", self._health)
        application.router.add_get("/metrics", metrics.answer)
        documents: dict[str, list[Route]] = {}
        for index, env in enumerate(self.envs):
            wires = [make(env.over(name)) for name, make in self._makers.items()]
            for prefix in ["", f"/{env.name}"] if index == 0 else [f"/{env.name}"]:
                documents[prefix] = _add_routes(application, prefix, wires)
        for prefix, routes in documents.items():
            everything = {prefix: routes} if prefix else documents
            document = openapi(everything, title=", ".join(env.env_id for env in self.envs))
            application.router.add_get(f"{prefix}/openapi.json", _constant(document))
        return application

    async def _health(self, _: web.Request) -> web.Response:
        return json_answer({"status": "healthy"})

    async def _dismiss(self, _: web.Application) -> None:
        """Have WebSockets closed: requests under way are waited for."""
        self.sessions.dismiss()

    @web.middleware
    async def _guard(self, http: web.Request, handler: Handler) -> web.StreamResponse:
        """Let only those in who may, and give every error a form that the wire's clients read."""
        try:
            self._door.check_origin(http)
            if http.path != "/health":
                self._door.check_token(http)
            return await handler(http)
        except Unwelcome as unwelcome:
            return _refusal(http, unwelcome, unwelcome.status)
        except tuple(_STATUS) as error:
            return _refusal(http, error, next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS))
        except web.HTTPException as error:
            if error.status < 400:
                raise
            sentence = (
                f"{http.method} {http.path} is nothing here ({error.reason}); GET /openapi.json says what there is."
            )
            return _refusal(http, BadRequest(sentence), error.status)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            logger.exception("A request failed.")
            return _refusal(http, error, 500)


def _maker(name: str) -> MakeWire:
    place = name if ":" in name else WIRES.get(name)
    if place is None:
        there_are = f"{did_you_mean(name, WIRES)} There are {', '.join(WIRES)}."
        raise UsageError(f"There is no wire {name!r:.40}.{there_are}")
    module, _, attribute = place.partition(":")
    try:
        make: MakeWire = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The wire {name!r:.80} cannot be imported: {error}.") from None
    return make


def _add_routes(application: web.Application, prefix: str, wires: Sequence[Wire]) -> list[Route]:
    """Add the wires' routes below a prefix; those that share an address get one handler."""
    by_address: dict[tuple[str, str], list[tuple[Wire, Route]]] = defaultdict(list)
    for wire in wires:
        for route in wire.routes():
            by_address[route.method, route.path].append((wire, route))
    for (method, path), claimants in by_address.items():
        application.router.add_route(method, f"{prefix}{path}", _shared(claimants))
    return [claimants[0][1] for claimants in by_address.values()]


def _shared(claimants: list[tuple[Wire, Route]]) -> Handler:
    first_wire, first = claimants[0]
    if len(claimants) == 1:

        async def alone(http: web.Request) -> web.StreamResponse:
            http[_WIRE] = first_wire
            return await first.handler(http)

        return alone

    async def whoever_claims(http: web.Request) -> web.StreamResponse:
        http[_WIRE] = first_wire
        try:
            body = loads(await http.read())
        except ValueError:
            body = None
        for wire, route in claimants:
            if route.claims is not None and route.claims(body):
                http[_WIRE] = wire
                return await route.handler(http)
        wire, route = next((each for each in claimants if each[1].claims is None), claimants[0])
        http[_WIRE] = wire
        return await route.handler(http)

    return whoever_claims


def _refusal(http: web.Request, error: BaseException, status: int) -> web.Response:
    wire: Wire | None = http.get(_WIRE)
    if wire is not None:
        return wire.refusal(error, status)
    expected = isinstance(error, (Unwelcome, *_STATUS))
    return json_answer({"error": str(error) if expected else "The server has failed; its log says how."}, status)


def _constant(document: dict[str, Any]) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return json_answer(document)

    return handler


_WIRE: web.RequestKey[Any] = web.RequestKey("wire", object)
