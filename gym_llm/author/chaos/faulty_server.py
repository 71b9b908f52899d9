"""A model server on this machine that fails on purpose: what goes wrong between engine and server, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any, Self

from aiohttp import web

from gym_llm.types import FailureKind

STATUSES = {"answers 429": 429, "answers 500": 500, "answers 503": 503}
SERVED: dict[str, FailureKind] = {
    "answers 429": "provider_quota_exhausted",
    "answers 500": "provider_unavailable",
    "answers 503": "provider_unavailable",
    "cut off": "transport_peer_drop",
    "no JSON": "agent_run_error",
}
"""What it can do wrong, and what a record calls that. With `cut off` the socket is reset in the midst of the answer."""


class FaultyServer:
    """Answers what the request's `metadata` says, in a thread; as a context manager.

    It knows nothing itself, and is the same for every process: `metadata["answer"]` is the response as JSON, and
    `metadata["fault"]` one of `SERVED`, or empty.

    Attributes:
        url: Its base URL.
    """

    def __enter__(self) -> Self:
        """Begin to listen, on loopback, at a free port."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        self._loop = asyncio.new_event_loop()
        self._runner = self._loop.run_until_complete(_listen(listener))
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos' server", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _listen(listener: socket.socket) -> web.ServerRunner:
    runner = web.ServerRunner(web.Server(_answer, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    if request.method == "GET":
        return web.json_response({"data": [{"id": "random"}]})
    metadata: dict[str, Any] = (await request.json())["metadata"]
    fault, answer = metadata["fault"], metadata["answer"]
    if fault in STATUSES:
        return web.json_response({"error": {"message": "chaos"}}, status=STATUSES[fault])
    if fault == "no JSON":
        return web.Response(text=answer[: len(answer) // 2], content_type="application/json")
    if fault == "cut off":
        response = web.StreamResponse(headers={"Content-Length": str(len(answer.encode()))})
        await response.prepare(request)
        await response.write(answer.encode()[: len(answer) // 2])
        assert request.transport is not None
        request.transport.abort()
        return response
    return web.json_response(json.loads(answer))
