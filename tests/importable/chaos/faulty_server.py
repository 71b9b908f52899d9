"""A model server on this machine that fails on purpose: what goes wrong between engine and server, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, Self

from aiohttp import web

from gym_llm.protocols.http.http_server import HttpServer, json_response
from gym_llm.types import FailureKind

STATUSES = {"answers 429": 429, "answers 500": 500, "answers 503": 503}
SERVED: dict[str, FailureKind] = {
    "answers 429": "provider_quota_exhausted",
    "answers 500": "provider_unavailable",
    "answers 503": "provider_unavailable",
    "cut off": "transport_peer_drop",
    "no JSON": "provider_unavailable",
}
"""Its faults, and their kinds in a record. With `cut off` the socket is reset during the answer."""


class FaultyServer(HttpServer):
    """A model server in a thread that answers as the request's `metadata` says; used as a context manager.

    It has no state, and is the same for every process: `metadata["answer"]` is the response as JSON, and
    `metadata["fault"]` is one of `SERVED`, or empty.

    Attributes:
        url: Its base URL.
    """

    closing_seconds = 1.0

    @property
    def url(self) -> str:
        """The base URL of OpenAI's clients."""
        return f"{super().url}/v1"

    def __enter__(self) -> Self:
        """Listen on loopback, at a free port."""
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self.__aenter__())
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos server", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        asyncio.run_coroutine_threadsafe(self.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _add_routes(self, application: web.Application) -> None:
        application.router.add_get("/{path:.*}", self._models)
        application.router.add_post("/{path:.*}", self._answer)

    async def _models(self, _: web.Request) -> web.Response:
        return json_response({"data": [{"id": "random"}]})

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        metadata: dict[str, Any] = (await http.json())["metadata"]
        fault, answer = metadata["fault"], metadata["answer"]
        if fault in STATUSES:
            return json_response({"error": {"message": "chaos"}}, STATUSES[fault])
        if fault == "no JSON":
            return web.Response(text=answer[: len(answer) // 2], content_type="application/json")
        if fault == "cut off":
            response = web.StreamResponse(headers={"Content-Length": str(len(answer.encode()))})
            await response.prepare(http)
            await response.write(answer.encode()[: len(answer) // 2])
            assert http.transport is not None
            http.transport.abort()
            return response
        return json_response(json.loads(answer))
