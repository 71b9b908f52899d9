"""ModelServer: an engine behind the model APIs of `gym_llm.protocols`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self

from aiohttp import web

from gym_llm.engines.engine import Engine
from gym_llm.protocols import DIALECTS, Dialect, Refusal, dialect_of
from gym_llm.protocols.http.access import Door, listening, url_of
from gym_llm.protocols.http.metrics import Metrics
from gym_llm.protocols.http.model_api import as_json, check_context, refusal_of, tell
from gym_llm.types import ResponseDict
from gym_llm.utils.limits import REQUEST_BYTES, limit
from gym_llm.utils.printable import excerpt

_PATHS = ", ".join(f"POST {dialect.path}" for dialect in DIALECTS.values()) + ", GET /v1/models and GET /health"


class ModelServer:
    """Serves one engine over HTTP, for clients that speak OpenAI's Responses or Chat Completions API.

    An async context manager: the engine is started, then the port is opened. Thousands of requests may be in flight;
    the engine batches them. A stream (`"stream": true`) begins when the engine has its answer; until then the client
    is kept waiting. A request whose client leaves is given up. Token ids are in the last item of a response (see
    `gym_llm.types.Item`), and elsewhere, in a chat completion in vLLM's places, where `return_token_ids` asks for them.
    Errors have the shape that each API's own have.

    Args:
        engine: Who answers. Started and closed with this.
        host: The address to listen on. Only one of this machine's own (`127.0.0.1`, `::1`, `localhost`) needs no token.
        port: 0 for any that is free.
        token: What clients send as `Authorization: Bearer TOKEN` (OpenAI's clients: `api_key`); None for no check.

    Attributes:
        url: The base URL, `http://127.0.0.1:8000/v1`, while it runs.

    Raises:
        UsageError: If the address is other machines' to reach and there is no token; by entering it, if the port cannot
            be opened.

    >>> async def main():
    ...     from gym_llm import make_engine
    ...     async with ModelServer(make_engine("pocket"), port=0) as server:
    ...         print(server.url)
    """

    def __init__(self, engine: Engine, *, host: str = "127.0.0.1", port: int = 8000, token: str | None = None) -> None:
        self.engine = engine
        self.host = host
        self.port = port
        self._door = Door(host, token)
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """See the class."""
        return f"{url_of(self.host, self.port)}/v1"

    async def __aenter__(self) -> Self:
        """Start the engine and open the port."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.engine)
            metrics = Metrics()
            middlewares: Any = [metrics.count, self._guard]
            application = web.Application(client_max_size=limit(REQUEST_BYTES), middlewares=middlewares)
            application.add_routes(
                [
                    web.get("/health", self._health),
                    web.get("/metrics", metrics.answer),
                    web.get("/v1/models", self._models),
                    *(web.post(dialect.path, partial(self._tell, dialect)) for dialect in DIALECTS.values()),
                ]
            )
            self.port = await stack.enter_async_context(listening(application, self.host, self.port))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the port, let requests under way finish for a few seconds, and close the engine."""
        await self._stack.aclose()

    # -- endpoints ---------------------------------------------------------------------------------------------------

    async def _health(self, _: web.Request) -> web.Response:
        return as_json({"status": "ok"})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": self.engine.model, "object": "model", "created": 0, "owned_by": "gym_llm"}
        return as_json({"object": "list", "data": [model]})

    async def _tell(self, dialect: Dialect, http: web.Request) -> web.StreamResponse:
        return await tell(http, dialect, partial(self._respond, dialect))

    async def _respond(self, dialect: Dialect, body: dict[str, Any]) -> ResponseDict:
        if body.get("model") not in (None, self.engine.model):
            sentence = f"There is no model {excerpt(body['model'], 80)} here, only {self.engine.model!r}."
            raise Refusal(sentence, 404, param="model", code="model_not_found")
        if dialect is DIALECTS["responses"]:
            body.setdefault("return_token_ids", True)
        response = await self.engine.respond(dialect.read(body))
        check_context(response)
        return response

    @web.middleware
    async def _guard(
        self, http: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Let only those in who know the token, and give every error the shape that the API's clients read."""
        try:
            self._door.check_origin(http)
            self._door.check_token(http)
            return await handler(http)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as error:
            refusal = Refusal(f"{http.method} {http.path} is nothing here; there are {_PATHS}.", error.status)
        except Exception as error:
            refusal = refusal_of(error)
        return as_json(dialect_of(http.path).refusal(refusal), refusal.status)
