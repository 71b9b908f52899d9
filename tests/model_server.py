"""A model server in a thread, for commands in other processes to ask."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

from aiohttp import web


class ModelServer:
    """A Chat Completions server in a thread.

    `answer` gets a request's body, and returns what to answer: a text, a choice (`{"message": {...}, …}`), or a status.
    """

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], str | int | dict[str, Any]] = lambda body: "yes"
        self.latency = 0.0
        self.bodies: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str | None]] = []
        """Of each body: the model, and the Authorization header that came with it."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._listen(listener))
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def _listen(self, listener: socket.socket) -> None:
        await self._loop.create_server(web.Server(self._handle, access_log=None), sock=listener)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end_waiting(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end_waiting(self) -> None:
        """Requests that still wait for their latency would keep the loop's tasks alive."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "stub"}]})
        body = await request.json()
        self.bodies.append(body)
        self.asked.append((body["model"], request.headers.get("Authorization")))
        await asyncio.sleep(self.latency)
        answer = self.answer(body)
        if isinstance(answer, int):
            return web.json_response({"error": {"message": "the model is on strike"}}, status=answer)
        choice = answer if isinstance(answer, dict) else {"message": {"role": "assistant", "content": answer}}
        return web.json_response(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", **choice}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9, **choice.get("usage", {})},
            }
        )
