"""ModelServer: an engine behind the model APIs of `gym_llm.protocols`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, cast

from aiohttp import web

from gym_llm.engines.engine import Engine
from gym_llm.engines.weights import UpdateMode, WeightSync
from gym_llm.errors import EngineError
from gym_llm.protocols import DIALECTS, Dialect, Refusal, dialect_of
from gym_llm.protocols.http.access import is_loopback
from gym_llm.protocols.http.http_server import HttpServer, json_response, url_of
from gym_llm.protocols.http.model_api import check_context, read_json, refusal_of, write_response
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.text import excerpt

_COUNT_PATH = f"{DIALECTS['messages'].path}/count_tokens"
_NOT_STORED = "Responses are not stored here: send the earlier items again as input."
_NOT_SERVED = (
    ("*", "/v1/responses/{id:.+}", _NOT_STORED),
    ("GET", "/v1/chat/completions", "Chat completions are not stored here."),
    ("POST", "/v1/embeddings", "This server makes no embeddings: ask a server of an embedding model."),
    ("POST", "/v1/completions", "Plain completions are not served: use /v1/chat/completions or /v1/responses."),
)
"""Routes that clients of the APIs know, and the reason why each is refused."""


class ModelApiServer(HttpServer):
    """The base of servers that answer the model APIs; subclasses say by which model.

    Attributes:
        prefixes: The paths below which the APIs are served.
    """

    prefixes: tuple[str, ...] = ("",)

    def _add_routes(self, application: web.Application) -> None:
        router = application.router
        for prefix in self.prefixes:
            router.add_get(f"{prefix}/v1/models", self._list_models)
            router.add_get(f"{prefix}/v1/models/{{model:.+}}", self._describe_model)
            router.add_post(f"{prefix}{_COUNT_PATH}", self._count_tokens)
            for method, path, message in _NOT_SERVED:
                router.add_route(method, f"{prefix}{path}", partial(self._refuse, message))
            for dialect in DIALECTS.values():
                router.add_post(f"{prefix}{dialect.path}", partial(self._answer, dialect))
        router.add_get("/health", self._health)

    def _models(self, http: web.Request) -> list[str]:
        """Return the names of the models that a client may ask."""
        raise NotImplementedError

    async def _answer(self, dialect: Dialect, http: web.Request) -> web.StreamResponse:
        """Answer a request in this API."""
        raise NotImplementedError

    async def _count(self, http: web.Request, body: dict[str, Any]) -> int | None:
        """Return the number of tokens of the prompt that a Messages body asks for; None if it is unknown."""
        raise NotImplementedError

    async def _list_models(self, http: web.Request) -> web.Response:
        names = self._models(http)
        ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return json_response({"object": "list", "data": [*map(_described, names)], "has_more": False, **ends})

    async def _describe_model(self, http: web.Request) -> web.Response:
        name = http.match_info["model"]
        if name not in (names := self._models(http)):
            raise _unknown_model(name, names)
        return json_response(_described(name))

    async def _count_tokens(self, http: web.Request) -> web.Response:
        count = await self._count(http, await read_json(http))
        if count is None:
            raise Refusal("The model of this server cannot count tokens: it makes no prompts itself.", 404)
        return json_response({"input_tokens": count})

    async def _refuse(self, message: str, http: web.Request) -> web.Response:
        self._models(http)  # refuses a client without a key first
        raise Refusal(message, 404, code="unsupported_endpoint")

    async def _health(self, _: web.Request) -> web.Response:
        return json_response({"status": "ok"})

    def _error_response(self, http: web.Request, error: Exception) -> web.Response:
        refusal = refusal_of(http, error)
        return json_response(dialect_of(http.path).refusal(refusal), refusal.status)


def read_count(body: dict[str, Any]) -> Request:
    """Return the request of a body of `/v1/messages/count_tokens`, which has no limit for the answer."""
    return DIALECTS["messages"].read({**body, "max_tokens": 1})


def _described(name: str) -> dict[str, Any]:
    """Return a model as OpenAI's and as Anthropic's clients read it."""
    anthropic = {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 0, "owned_by": "gym_llm", **anthropic}


def _unknown_model(name: Any, names: Sequence[str]) -> Refusal:
    served = ", ".join(map(repr, names))
    return Refusal(
        f"There is no model {excerpt(name, 80)} here, only {served}.", 404, param="model", code="model_not_found"
    )


class ModelServer(ModelApiServer):
    """Serves one engine over HTTP, for clients of the Responses, Chat Completions and Messages APIs.

    An async context manager: the engine is started, then the port is opened. Thousands of requests may be in flight;
    the engine batches them. A stream (`"stream": true`) begins when the engine has its response; until then the client
    waits. A request whose client disconnects is cancelled. Token ids are in the last item of a response (see
    `gym_llm.types.Item`). In a chat completion they are where vLLM has them, if `return_token_ids` asks for them.
    Errors have the form of each API.

    On a loopback address with a token, `POST /v1/weights` replaces the engine's weights by those of a folder:
    `{"folder": ..., "mode": ..., "version": ...}`. See `gym_llm.engines.weights.WeightSync`.

    Args:
        engine: Answers the requests. Started and closed with the server.
        host: The address to listen on. Only a loopback address (`127.0.0.1`, `::1`, `localhost`) needs no token.
        port: 0 for a free one.
        token: What clients send as `Authorization: Bearer TOKEN` (OpenAI's clients: `api_key`); None for no check.

    Attributes:
        url: The base URL, `http://127.0.0.1:8000/v1`, while it runs.

    Raises:
        UsageError: If other machines can reach the address and there is no token. On entering, if the port cannot be
            opened.

    >>> async def main():
    ...     from gym_llm import make_engine
    ...     async with ModelServer(make_engine("pocket"), port=0) as server:
    ...         print(server.url)
    """

    def __init__(self, engine: Engine, *, host: str = "127.0.0.1", port: int = 8000, token: str | None = None) -> None:
        super().__init__(host=host, port=port, token=token)
        self.engine = engine

    @property
    def url(self) -> str:
        """The base URL of OpenAI's clients."""
        return f"{url_of(self.host, self.port)}/v1"

    async def _start(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self.engine)

    def _add_routes(self, application: web.Application) -> None:
        super()._add_routes(application)
        application.router.add_get("/metrics", self._metrics.answer)
        application.router.add_get("/v1/weights", self._describe_weights)
        application.router.add_post("/v1/weights", self._update_weights)

    def _models(self, _: web.Request) -> list[str]:
        return [self.engine.model]

    async def _count(self, http: web.Request, body: dict[str, Any]) -> int | None:
        if body.get("model") not in (None, self.engine.model):
            raise _unknown_model(body["model"], [self.engine.model])
        return await asyncio.to_thread(self.engine.count_tokens, read_count(body))

    async def _describe_weights(self, _: web.Request) -> web.Response:
        self._check_weights()
        return json_response({"weight_version": self.engine.weight_version})

    async def _update_weights(self, http: web.Request) -> web.Response:
        self._check_weights()
        body = await read_json(http)
        folder, mode, version = body.get("folder"), body.get("mode", "wait"), body.get("version")
        if not isinstance(folder, str) or not isinstance(mode, str):
            raise Refusal("Send the `folder` of the safetensors, and a `mode`: wait, keep or recompute.")
        try:
            await cast(WeightSync, self.engine).update_weights(folder, mode=cast(UpdateMode, mode), version=version)
        except (EngineError, OSError, ValueError) as error:
            raise Refusal(f"The weights are not replaced: {error}") from None
        return json_response({"weight_version": self.engine.weight_version})

    def _check_weights(self) -> None:
        if not self.engine.capabilities.weights:
            raise Refusal(f"The weights of {self.engine.model} cannot be replaced.", 404)
        if self._access.token is None or not is_loopback(self.host):
            raise Refusal("Weights are replaced only behind a token, and on a loopback address.", 403)

    async def _answer(self, dialect: Dialect, http: web.Request) -> web.StreamResponse:
        respond: Callable[[dict[str, Any]], Awaitable[ResponseDict]] = partial(self._respond, dialect)
        return await write_response(http, dialect, respond)

    async def _respond(self, dialect: Dialect, body: dict[str, Any]) -> ResponseDict:
        if body.get("model") not in (None, self.engine.model):
            raise _unknown_model(body["model"], [self.engine.model])
        if dialect is DIALECTS["responses"]:
            body.setdefault("return_token_ids", True)
        response = await self.engine.respond(dialect.read(body))
        check_context(response)
        return response
