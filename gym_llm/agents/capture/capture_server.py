"""CaptureServer: a model for agents over HTTP, in three APIs; every call is kept in the session of its key.

The key is the API key of the model APIs' clients, or part of the path: `/s/KEY/v1/chat/completions`, or NeMo Gym's
`/ng-rollout/KEY/v1/...`. Programs that start agents open sessions and read their results at `/sessions`. The routes
and fields are those of OpenEnv's capture proxy (0.10); `/sessions/ID/trajectory` is our own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from aiohttp import web

from gym_llm.agents.capture.call_graph import Call
from gym_llm.agents.capture.capture_session import CallRefused, CaptureSession
from gym_llm.agents.capture.session_api import SessionControl
from gym_llm.concurrency.relaxed_gc import relaxed_gc
from gym_llm.engines.engine import Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.engines.model_server import ModelApiServer, read_count
from gym_llm.errors import InfrastructureError
from gym_llm.protocols import Dialect, Refusal
from gym_llm.protocols.http.access import AccessDenied, given_key
from gym_llm.protocols.http.http_server import Handler, json_response
from gym_llm.protocols.http.metrics import Metric
from gym_llm.protocols.http.model_api import check_context, write_response
from gym_llm.protocols.http.server_memory import MEMORY, Holding
from gym_llm.types import ResponseDict, Usage
from gym_llm.utils.limits import SERVER_BYTES, check_seconds, limit

CAPACITY = 4_096
"""The most sessions at once, by default."""
IDLE_SECONDS = 3_600.0
"""Seconds without a call after which a session expires, by default."""

_STOP = "Step budget exhausted; stopping."
_LOOK_SECONDS = 5.0


class NoRoom(InfrastructureError):
    """Raised when there is no room for another session: try again later."""

    failure_kind = "provider_quota_exhausted"


class CaptureServer(ModelApiServer):
    """Serves capture sessions to agents. An async context manager of one event loop.

    A session's id is the right to ask its model, and nothing else. A call without an id is answered 401. Sessions that
    NeMo Gym's path opens have names that others can guess, so their calls need the server's token, too. Where sessions
    are opened over HTTP, clients that open or read them need the server's token, if there is one. After the last
    allowed call (`max_model_calls`), a session replies with a message that says so, to end the agent. That message is
    not in the trajectory.

    Args:
        engine: The engine of sessions that are opened over HTTP; started and closed with the server. None: only `open`
            opens sessions, and there is no `/sessions`.
        host: The address to listen on; one that other machines can reach needs a token.
        port: 0 for a free one.
        token: The token for `/sessions`: `Authorization: Bearer TOKEN`.
        others: More engines, by the model name with which agents ask for them; started and closed with the server.
            Their calls are not in the trajectory.
        upstreams: Whether a client that opens a session may name another model server for it (`llm_url`), which this
            machine then asks.
        capacity: The most sessions at once.
        idle_seconds: Seconds without a call after which a session expires.

    Attributes:
        url: `http://127.0.0.1:8000`, while it runs; OpenAI's clients need `/v1` after it.
        sessions: The sessions by id.

    Raises:
        UsageError: If the address needs a token. On entering, if the port cannot be opened.
        ValueError: If a number is out of range.

    >>> async def main():
    ...     from gym_llm import make_engine
    ...     async with CaptureServer(make_engine("pocket"), port=0) as server:
    ...         print(server.url)
    """

    prefixes = ("", "/s/{key}", "/ng-rollout/{key}", "/ng-rollout/{key}/training-token-capture")

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        others: Mapping[str, Engine] | None = None,
        upstreams: bool = False,
        capacity: int = CAPACITY,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is 1 or more, got {capacity}.")
        check_seconds("idle_seconds", idle_seconds)
        super().__init__(host=host, port=port, token=token)
        self.engine = engine
        self.others = dict(others or {})
        self.capacity = capacity
        self.idle_seconds = idle_seconds
        self.sessions: dict[str, CaptureSession] = {}
        self.opens_for_prefixes = engine is not None
        self._control = None if engine is None else SessionControl(self, upstreams=upstreams)
        self._holdings: dict[str, Holding] = {}
        self._named: set[str] = set()  # of sessions that a path has opened: names that others can guess

    def open(self, session: CaptureSession) -> None:
        """Add a session: its id opens its model from now on.

        Raises:
            NoRoom: If the server is full.
            ValueError: If the id is taken.
        """
        if session.id in self.sessions:
            raise ValueError("The session id is taken.")
        if len(self.sessions) >= self.capacity:
            raise NoRoom(f"All {self.capacity:,} sessions are taken: try again later.")
        self.sessions[session.id] = session
        self._holdings[session.id] = Holding()

    def close(self, id: str) -> CaptureSession | None:
        """Remove a session, which makes no more calls; return it, or None if the id is unknown."""
        self._named.discard(id)
        if (holding := self._holdings.pop(id, None)) is not None:
            holding.clear()
        if (session := self.sessions.pop(id, None)) is not None:
            session.close()
        return session

    # -- routes ------------------------------------------------------------------------------------------------------

    async def _start(self, stack: AsyncExitStack) -> None:
        stack.enter_context(relaxed_gc())  # sessions keep all messages
        for engine in (self.engine, *self.others.values()):
            if engine is not None:
                await stack.enter_async_context(engine)
        if self._control is not None:
            stack.push_async_callback(self._control.aclose)
            expiring = asyncio.create_task(self._expire())
            stack.callback(expiring.cancel)

    def _add_routes(self, application: web.Application) -> None:
        super()._add_routes(application)
        application.router.add_get("/metrics", self._behind_token(self._metrics.answer))
        if self._control is not None:
            for method, path, handler in self._control.routes():
                application.router.add_route(method, path, self._behind_token(handler))

    def _authorize(self, http: web.Request) -> None:
        self._access.check_origin(http)  # the token or a session's key is checked by each route

    def _figures(self) -> list[Metric]:
        under_way = sum(session.under_way for session in self.sessions.values())
        return [
            Metric("gym_llm_sessions_open", "gauge", "Sessions that are open.", [({}, len(self.sessions))]),
            Metric("gym_llm_model_calls_under_way", "gauge", "Calls that the model works on.", [({}, under_way)]),
        ]

    def _behind_token(self, handler: Handler) -> Handler:
        async def checked(http: web.Request) -> web.StreamResponse:
            self._access.check_token(http)
            return await handler(http)

        return checked

    async def _health(self, _: web.Request) -> web.Response:
        return json_response({"status": "healthy", "sessions": len(self.sessions)})

    def _models(self, http: web.Request) -> list[str]:
        session = self._session(http)
        return list(dict.fromkeys([session.engine.model, *session.others]))

    async def _count(self, http: web.Request, body: dict[str, Any]) -> int | None:
        session = self._session(http)
        engine = session.others.get(str(body.get("model")), session.engine)
        return await asyncio.to_thread(engine.count_tokens, read_count(body))

    async def _answer(self, dialect: Dialect, http: web.Request) -> web.StreamResponse:
        session = self._session(http)
        calls: list[Call] = []

        async def respond(body: dict[str, Any]) -> ResponseDict:
            self._check_memory(session)
            model = body.get("model")
            name = model if isinstance(model, str) else None
            try:
                call, response = await session.ask(dialect.read(body), model=name, dialect=dialect.name)
            except CallRefused as refused:
                if refused.code != "max_model_calls" or self._control is None:
                    raise
                session.budget_stops += 1
                return _stop(session)
            finally:
                if (holding := self._holdings.get(session.id)) is not None:
                    holding.add(session.size - holding.size)
            check_context(response)
            calls.append(call)
            return response

        def lost() -> None:
            for call in calls:
                session.withdraw(call)

        return await write_response(http, dialect, respond, lost)

    def _check_memory(self, session: CaptureSession) -> None:
        """Refuse a call of a session with more than an equal share of the process's memory, if that is overdrawn.

        The sessions of programs in this process are their own affair.
        """
        if self._control is None or not MEMORY.is_overdrawn:
            return
        if session.size * len(self.sessions) > limit(SERVER_BYTES):
            raise CallRefused("The sessions' memory is full, and this one holds most of it.", code="session_full")

    def _session(self, http: web.Request) -> CaptureSession:
        key = http.match_info.get("key")
        session = self.sessions.get(key or given_key(http))
        if session is not None:
            if session.id in self._named:
                self._access.check_token(http)
            return session
        if key is not None and self._control is not None and http.path.startswith("/ng-rollout/"):
            self._access.check_token(http)
            session = self._control.open_named(key)
            self._named.add(session.id)
            return session
        raise AccessDenied(
            "The key is not of a session: open one with POST /sessions, and send its id as the API key.", 401
        )

    def _error_response(self, http: web.Request, error: Exception) -> web.Response:
        if isinstance(error, NoRoom):
            error = Refusal(str(error), 503, code="capacity_reached")
        return super()._error_response(http, error)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self.idle_seconds / 4))
            oldest = time.monotonic() - self.idle_seconds
            for session in [one for one in self.sessions.values() if one.used < oldest and not one.under_way]:
                self.close(session.id)


def _stop(session: CaptureSession) -> ResponseDict:
    usage: Usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    return {**text_response(_STOP, model=session.engine.model), "id": "resp_stop", "usage": usage}
