"""The engine as a server of Chat Completions with token ids, as vLLM serves them: `--engine` of the command line.

POST /v1/chat/completions   with `return_token_ids` and `logprobs`: vLLM's `prompt_token_ids`, `token_ids`, and
                            log probabilities of tokens that are written `token_id:17`
GET  /v1/models
GET  /log?run=0123abcd      the calls of a run, as `Call` has them
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.completions import response_to_chat
from gym_llm.protocols.chat.requests import chat_to_request
from gym_llm.protocols.http.http_server import listening, url_of
from gym_llm.utils.json_codec import dumps, loads

from .engine import MODEL, Call, LoggedEngine

_LEFT_OUT = ("model", "stream", "stream_options", "return_token_ids", "n", "user", "store")


@asynccontextmanager
async def serving(engine: LoggedEngine, port: int = 0) -> AsyncGenerator[str, None]:
    """Serve a started engine on loopback for as long as the context lasts; the base URL, without `/v1`."""

    async def chat(http: web.Request) -> web.Response:
        body: dict[str, Any] = loads(await http.read())
        try:
            request = chat_to_request({name: value for name, value in body.items() if name not in _LEFT_OUT})
            response = await engine.answer(request, model=body.get("model") or MODEL)
        except (EngineError, ValueError, LookupError, TypeError, AttributeError) as error:
            return _json({"error": {"message": str(error), "type": "invalid_request_error"}}, 400)
        return _json(response_to_chat(response))

    async def models(_: web.Request) -> web.Response:
        return _json({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "us"}]})

    async def log(http: web.Request) -> web.Response:
        return _json([dataclasses.asdict(call) for call in engine.log.of(http.query["run"])])

    application = web.Application(client_max_size=1 << 26)
    application.add_routes(
        [web.post("/v1/chat/completions", chat), web.get("/v1/models", models), web.get("/log", log)]
    )
    async with listening(application, "127.0.0.1", port) as opened:
        yield url_of("127.0.0.1", opened)


async def fetch_log(http: aiohttp.ClientSession, url: str, run: str) -> list[Call]:
    """The calls of a run, from the server of another process."""
    async with http.get(f"{url}/log", params={"run": run}) as answer:
        answer.raise_for_status()
        return [Call(**call) for call in loads(await answer.read())]


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=dumps(body), status=status, content_type="application/json")
