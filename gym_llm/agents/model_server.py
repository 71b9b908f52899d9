"""SessionServer: the models of agents' episodes over HTTP, on this machine's loopback, each to who has its key.

The key is the API key of the model APIs' clients, or stands in the path: `/s/KEY/v1/chat/completions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self

from aiohttp import web

from gym_llm.capture import Call, CallRefused, CaptureSession
from gym_llm.dialects import DIALECTS, Dialect, Refusal, dialect_of
from gym_llm.dialects.over_http import as_json, refusal_of, tell
from gym_llm.http_server import Door, Unwelcome, given_key, listening, url_of
from gym_llm.limits import REQUEST_BYTES, limit
from gym_llm.types import ResponseDict


class SessionServer:
    """Serves capture sessions to agents. An async context manager, of one event loop.

    Attributes:
        url: Where, `http://127.0.0.1:41231`, while it runs; OpenAI's clients want `/v1` after it.
    """

    def __init__(self) -> None:
        self.url = ""
        self._sessions: dict[str, CaptureSession] = {}
        self._door = Door("127.0.0.1", None)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open a port."""
        application = web.Application(client_max_size=limit(REQUEST_BYTES), middlewares=[self._guard])  # type: ignore[list-item]
        for start in ("/s/{key}", ""):
            application.router.add_get(f"{start}/v1/models", self._models)
            for dialect in DIALECTS.values():
                application.router.add_post(f"{start}{dialect.path}", partial(self._tell, dialect))
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(listening(application, "127.0.0.1", 0))
            self.url = url_of("127.0.0.1", port)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the port."""
        await self._stack.aclose()

    def open(self, session: CaptureSession) -> None:
        """From now on who knows the session's id can ask its model."""
        self._sessions[session.id] = session

    def close(self, id: str) -> None:
        """Nobody can any more: no more calls are made."""
        if (session := self._sessions.pop(id, None)) is not None:
            session.close()

    async def _models(self, http: web.Request) -> web.Response:
        model = {"id": self._session(http).engine.model, "object": "model", "created": 0, "owned_by": "gym_llm"}
        return as_json({"object": "list", "data": [model]})

    async def _tell(self, dialect: Dialect, http: web.Request) -> web.StreamResponse:
        session = self._session(http)
        calls: list[Call] = []

        async def respond(body: dict[str, Any]) -> ResponseDict:
            call, response = await session.ask(dialect.read(body), dialect=dialect.name)
            calls.append(call)
            if (response.get("incomplete_details") or {}).get("reason") == "context_length_exceeded":
                raise Refusal("The conversation is longer than the model's context.", code="context_length_exceeded")
            return response

        try:
            return await tell(http, dialect, respond)
        except (asyncio.CancelledError, ConnectionError):
            for call in calls:  # the agent has left before it had all of the answer
                session.withdraw(call)
            raise

    def _session(self, http: web.Request) -> CaptureSession:
        session = self._sessions.get(http.match_info.get("key") or given_key(http))
        if session is None:
            raise Unwelcome("No episode under way has this key.", 401)
        return session

    @web.middleware
    async def _guard(
        self, http: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Let only this machine in, and give every error the shape that the API's clients read."""
        try:
            self._door.check_origin(http)
            return await handler(http)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except CallRefused as error:
            refusal = Refusal(str(error), error.status, code=error.code)
        except Exception as error:
            refusal = refusal_of(error)
        return as_json(dialect_of(http.path).refusal(refusal), refusal.status)
