"""EnvServer: environments over HTTP and WebSocket, for clients of OpenEnv, NeMo Gym, MCP and ORS, on one port."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

from aiohttp import web
from gymnasium.envs.registration import EnvSpec

from gym_llm.concurrency.relaxed_gc import relaxed_gc
from gym_llm.errors import UsageError
from gym_llm.protocols.http.access import AccessDenied
from gym_llm.protocols.http.bodies import BodyRefused, read_value
from gym_llm.protocols.http.http_server import HttpServer, http_problem, json_response
from gym_llm.protocols.http.metrics import Metric, metrics_response, sum_metrics
from gym_llm.protocols.http.server_memory import ServerBusy
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed
from gym_llm.serve.forwarding import Forwarding
from gym_llm.serve.frontend import Frontend, Handler, MakeFrontend, NotJSON, Route, openapi
from gym_llm.serve.mcp import McpFrontend
from gym_llm.serve.nemo import NemoFrontend
from gym_llm.serve.openenv import OpenEnvFrontend
from gym_llm.serve.ors import OrsFrontend
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import CAPACITY, IDLE_SECONDS, AtCapacity, SessionLost, Sessions, UnknownSession
from gym_llm.types import Row
from gym_llm.utils.secrets import redacted_logger
from gym_llm.utils.text import did_you_mean

FRONTENDS: dict[str, MakeFrontend] = {
    **{"openenv": OpenEnvFrontend, "nemo": NemoFrontend, "mcp": McpFrontend},
    "ors": OrsFrontend,
}
"""The protocols by name. If two share a path, the first that claims a request answers it."""
DEFAULT_PROTOCOLS = ("openenv", "nemo", "mcp")
"""The protocols of a server that names none. ORS is not one: its `/create` and `/delete` may be tools of NeMo Gym's."""
_STATUS: dict[type[BaseException], int] = {
    BadRequest: 400,
    NotJSON: 400,
    UnknownSession: 404,
    AtCapacity: 503,
    ServerBusy: 503,
    EpisodeFailed: 500,
}
logger = redacted_logger(__name__)


class EnvServer(HttpServer):
    """Serves environments over HTTP and WebSocket.

    An async context manager of one port. The first environment is at the root, and each one is below its own name:
    `http://127.0.0.1:8000/Weather-v0`. Every client plays sessions of its own (see `Sessions`).

    Args:
        env_ids: Registered ids, files with an environment, or specs; one or several.
        protocols: Names from `FRONTENDS`, or others as `module:attribute`; None for `DEFAULT_PROTOCOLS`.
        tasks: As for `gym_llm.rollout`; only with a single environment.
        env_kwargs: Further arguments of a single environment. For several, arguments by their entry in `env_ids`.
        host: The address to listen on; one that other machines can reach needs a token.
        port: 0 for a free one.
        token: What clients send as `Authorization: Bearer TOKEN`; None for no check.
        capacity: The most sessions at once.
        idle_seconds: Seconds without a request after which a session expires.
        step_timeout: Seconds that a reset or a step may wait; None for no limit.
        secret: The secret from which signing keys are derived; b"" for a random one.
        forwarding: The other processes that share the port, if there are any.

    Attributes:
        url: `http://127.0.0.1:8000`, while it runs.
        sessions: The sessions that are played.

    Raises:
        UsageError: If a protocol is unknown, tasks are given for several environments, two have one name, or the
            address needs a token. On entering, if the port cannot be opened.
        gymnasium.error.Error: If an id is unknown.
        DataError: If the tasks are invalid.

    >>> async def main():
    ...     async with EnvServer("gym_llm/Weather-v0", port=0) as server:
    ...         print(server.url)
    """

    def __init__(
        self,
        env_ids: str | EnvSpec | Sequence[str | EnvSpec],
        *,
        protocols: Iterable[str] | None = None,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
        capacity: int = CAPACITY,
        idle_seconds: float = IDLE_SECONDS,
        step_timeout: float | None = 600.0,
        secret: bytes = b"",
        forwarding: Forwarding | None = None,
    ) -> None:
        env_ids = [env_ids] if isinstance(env_ids, (str, EnvSpec)) else list(env_ids)
        kwargs_of = {name_of(env_id): env_kwargs for env_id in env_ids} if len(env_ids) == 1 else env_kwargs or {}
        if tasks is not None and len(env_ids) != 1:
            raise UsageError("tasks need a single environment: serve one, or leave tasks out.")
        inner = None if forwarding is None else forwarding.listener
        super().__init__(host=host, port=port, token=token, inner=inner)
        protocols = list(DEFAULT_PROTOCOLS if protocols is None else protocols)
        self._makers = {name: _maker(name) for name in sorted(protocols, key=[*FRONTENDS, *protocols].index)}
        factories = [EnvFactory(env_id, tasks=tasks, env_kwargs=kwargs_of.get(name_of(env_id))) for env_id in env_ids]
        self.sessions = Sessions(
            {factory.env_id: factory for factory in factories},
            capacity=capacity,
            idle_seconds=idle_seconds,
            step_timeout=step_timeout,
            prefix="" if forwarding is None else forwarding.prefix,
        )
        self._forwarding = forwarding
        secret = secret or secrets.token_bytes(32)
        self.envs = [ServedEnv(factory, self.sessions, secret=secret, protocols=protocols) for factory in factories]
        if not self.envs or len({env.name for env in self.envs}) < len(self.envs):
            raise UsageError(
                f"A server needs one or more environments with different names; got {', '.join(map(name_of, env_ids))}."
            )

    @property
    def env_ids(self) -> list[str]:
        """The ids of its environments."""
        return [env.env_id for env in self.envs]

    @property
    def protocols(self) -> list[str]:
        """The names of the server's protocols."""
        return list(self._makers)

    async def _start(self, stack: AsyncExitStack) -> None:
        stack.enter_context(relaxed_gc())
        stack.push_async_callback(self.sessions.aclose)

    async def _stop(self) -> None:
        self.sessions.dismiss()  # closes WebSockets, whose requests would be waited for

    def _add_routes(self, application: web.Application) -> None:
        application.router.add_get("/health", self._health)
        application.router.add_get("/metrics", self._tell)
        if self._forwarding is not None:
            application.router.add_get("/room", self._room)
        documents: dict[str, list[Route]] = {}
        for index, env in enumerate(self.envs):
            frontends = [make(env.over(name)) for name, make in self._makers.items()]
            application.router.add_get(f"/{env.name}/health", self._health)
            self._access.open_paths.add(f"/{env.name}/health")
            for prefix in ["", f"/{env.name}"] if index == 0 else [f"/{env.name}"]:
                documents[prefix] = self._add_env(application, prefix, frontends)
        for prefix, routes in documents.items():
            document = openapi({"": routes} if prefix else documents, title=", ".join(env.env_id for env in self.envs))
            if prefix:  # the paths of one environment are below its address
                document["servers"] = [{"url": prefix}]
            application.router.add_get(f"{prefix}/openapi.json", _constant(document))

    def _add_env(self, application: web.Application, prefix: str, frontends: Sequence[Frontend]) -> list[Route]:
        by_address: dict[tuple[str, str], list[tuple[Frontend, Route]]] = defaultdict(list)
        for frontend in frontends:
            for route in frontend.routes():
                by_address[route.method, route.path].append((frontend, route))
        for (method, path), claimants in by_address.items():
            application.router.add_route(method, f"{prefix}{path}", self._shared(claimants))
        return [claimants[0][1] for claimants in by_address.values()]

    def _shared(self, claimants: list[tuple[Frontend, Route]]) -> Handler:
        first_frontend, first = claimants[0]
        if len(claimants) == 1:

            async def alone(http: web.Request) -> web.StreamResponse:
                http[_FRONTEND] = first_frontend
                return await self._answer(http, first_frontend, first)

            return alone
        sockets = [each for each in claimants if each[1].is_socket]
        others = [each for each in claimants if not each[1].is_socket] or sockets
        most = max((route.most_bytes or 1 << 62 for _, route in others), default=None)

        async def claimed_route(http: web.Request) -> web.StreamResponse:
            http[_FRONTEND] = first_frontend
            if sockets and http.headers.get("Upgrade", "").lower() == "websocket":
                frontend, route = sockets[0]
            else:
                try:
                    body = await read_value(http, most=most)
                except ValueError:
                    body = None
                claimed = (each for each in others if each[1].claims is not None and each[1].claims(body))
                left = (each for each in others if each[1].claims is None)
                frontend, route = next(claimed, None) or next(left, others[0])
            http[_FRONTEND] = frontend
            return await self._answer(http, frontend, route)

        return claimed_route

    async def _answer(self, http: web.Request, frontend: Frontend, route: Route) -> web.StreamResponse:
        others = self._forwarding
        if others is not None and not http.get(_INNER):
            session_id = await frontend.session_of(http)
            room = 0 if others.number is None else self.sessions.capacity - len(self.sessions)
            worker = await others.elsewhere(session_id, room)
            try:
                if worker is not None:
                    return await others.forward(http, worker, session_id)
            except SessionLost:  # the frontend knows what that means to its clients: as with a session that has expired
                if others.number is None and (worker := await others.elsewhere(None, 0)) is not None:
                    return await others.forward(http, worker, None)
        return await route.handler(http)

    async def _tell(self, http: web.Request) -> web.Response:
        """The metrics, of all processes."""
        others = self._forwarding
        if others is None or http.get(_INNER):
            return await self._metrics.answer(http)
        texts = await others.ask_all("/metrics")
        return metrics_response(
            sum_metrics([*texts.values(), *(() if others.number is None else [self._metrics.text()])])
        )

    async def _room(self, http: web.Request) -> web.Response:
        if not http.get(_INNER):
            raise web.HTTPNotFound
        return web.Response(text=str(self.sessions.capacity - len(self.sessions)))

    def _figures(self) -> Iterator[Metric]:
        yield Metric("gym_llm_server_processes", "gauge", "Processes that answer.", [({}, 1)])
        yield from self.sessions.metrics()

    async def _health(self, _: web.Request) -> web.Response:
        return json_response({"status": "healthy"})

    def _authorize(self, http: web.Request) -> None:
        if self._forwarding is not None and self._forwarding.is_inner(http):
            http[_INNER] = True
        else:
            super()._authorize(http)

    def _error_response(self, http: web.Request, error: Exception) -> web.Response:
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 0)
        if not status and isinstance(error, AccessDenied | BodyRefused | web.HTTPException | web.RequestPayloadError):
            status, message = http_problem(http, error) or (500, "")
            if not isinstance(error, AccessDenied):
                is_unknown = isinstance(error, web.HTTPNotFound | web.HTTPMethodNotAllowed)
                error = BadRequest(f"{message} GET /openapi.json lists the routes." if is_unknown else message)
        if not status:
            logger.error("A request failed.", exc_info=error)
        frontend: Frontend | None = http.get(_FRONTEND)
        if frontend is not None:
            return frontend.refusal(error, status or 500)
        message = str(error) if status else "The server has failed; its log says how."
        return json_response({"error": message}, status or 500)


def name_of(env_id: str | EnvSpec) -> str:
    """Return the key of an environment in `env_kwargs`."""
    return env_id if isinstance(env_id, str) else env_id.id


def _maker(name: str) -> MakeFrontend:
    if name in FRONTENDS:
        return FRONTENDS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        hint = did_you_mean(name, FRONTENDS)
        raise UsageError(f"There is no protocol {name!r:.40}.{hint} Choose from {', '.join(FRONTENDS)}.")
    try:
        make: MakeFrontend = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The protocol {name!r:.80} cannot be imported: {error}.") from None
    return make


def _constant(document: dict[str, Any]) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return json_response(document)

    return handler


_FRONTEND: web.RequestKey[Any] = web.RequestKey("frontend", object)
_INNER: web.RequestKey[bool] = web.RequestKey("inner", bool)
