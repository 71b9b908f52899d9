"""ModelServer: `POST /v1/responses` and `/v1/chat/completions` over an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self

from aiohttp import web

from gym_llm.data.files.jsonl import dumps, loads
from gym_llm.dialects import DIALECTS, Dialect, Refusal
from gym_llm.engines.base import Engine
from gym_llm.errors import EngineError
from gym_llm.http_server import Door, Unwelcome, listening, url_of
from gym_llm.limits import REQUEST_BYTES, limit
from gym_llm.outcomes import reason
from gym_llm.secrets import redacted_logger
from gym_llm.types import Request, ResponseDict

_JSON = "application/json"
logger = redacted_logger(__name__)


class ModelServer:
    """Serves one engine over HTTP, for clients that speak OpenAI's Responses or Chat Completions API.

    An async context manager: the engine is started, then the port is opened. Thousands of requests may be in flight;
    the engine batches them. Answers come whole, not as streams. A request whose client leaves is given up. Token ids
    are in the last item of a response (see `gym_llm.types.Item`), and in a chat completion, in vLLM's places, where
    `return_token_ids` asks for them. Errors have OpenAI's shape.

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
            application = web.Application(client_max_size=limit(REQUEST_BYTES), middlewares=[self._guard])  # type: ignore[list-item]
            application.add_routes(
                [
                    web.get("/health", self._health),
                    web.get("/v1/models", self._models),
                    *(web.post(dialect.path, partial(self._answer, dialect)) for dialect in DIALECTS.values()),
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
        return _answer({"status": "ok"})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": self.engine.model, "object": "model", "created": 0, "owned_by": "gym_llm"}
        return _answer({"object": "list", "data": [model]})

    async def _answer(self, dialect: Dialect, http: web.Request) -> web.Response:
        body = await _json(http)
        if body.get("stream"):
            raise Refusal("Answers come whole here, not as a stream: leave `stream` out.", param="stream")
        if body.get("model") not in (None, self.engine.model):
            sentence = f"There is no model {body['model']!r:.80} here, only {self.engine.model!r}."
            raise Refusal(sentence, 404, param="model", code="model_not_found")
        if dialect.name == "responses":
            body.setdefault("return_token_ids", True)
        response = await self._ask(dialect.read(body))
        return _answer(dialect.answer(response, body))

    async def _ask(self, request: Request) -> ResponseDict:
        try:
            response = await self.engine.respond(request)
        except EngineError as error:
            elsewhere = error.failure_kind.startswith(("transport", "provider"))  # not what was asked is wrong
            raise Refusal(str(error), 502 if elsewhere else 400, kind="engine_error") from error
        if (response.get("incomplete_details") or {}).get("reason") == "context_length_exceeded":
            raise Refusal("The conversation is longer than the model's context.", code="context_length_exceeded")
        return response

    @web.middleware
    async def _guard(
        self, http: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Let only those in who know the token, and give every error OpenAI's shape."""
        try:
            self._door.check_origin(http)
            if http.path != "/health":
                self._door.check_token(http)
            return await handler(http)
        except Unwelcome as unwelcome:
            code = "invalid_api_key" if unwelcome.status == 401 else None
            return _answer(Refusal(str(unwelcome), code=code).body(), unwelcome.status)
        except Refusal as refusal:
            return _answer(refusal.body(), refusal.status)
        except web.HTTPRequestEntityTooLarge:
            return _answer(
                Refusal(f"A request has at most {limit(REQUEST_BYTES):,} bytes ({REQUEST_BYTES}).").body(), 413
            )
        except web.HTTPException as error:
            sentence = f"{http.method} {http.path} is nothing here; there are POST /v1/responses and "
            rest = "/v1/chat/completions, GET /v1/models and /health."
            return _answer(Refusal(sentence + rest).body(), error.status)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            logger.exception("A request failed.")
            return _answer(Refusal(reason(error), kind="server_error").body(), 500)


async def _json(http: web.Request) -> dict[str, Any]:
    # Browsers send other types across origins without asking: a page must not use a model that serves on loopback.
    if http.content_type != _JSON:
        raise Refusal(f"The body is JSON, and the header says so: Content-Type: {_JSON}.", 415)
    try:
        body = loads(await http.read())
    except ValueError:
        raise Refusal("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Refusal(f"The body is a JSON object, got {type(body).__name__}.")
    return body


def _answer(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=dumps(body), status=status, content_type=_JSON)
