"""A wire as small as can be, for tests of what is common to all: sessions by a header, a query or a WebSocket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Any

from aiohttp import WSMsgType, web

from gym_llm.protocols.http.http_server import json_response
from gym_llm.serve.frontend import Route, read_json
from gym_llm.serve.served_env import ServedEnv
from gym_llm.utils.json_codec import dumps


class PlainWire:
    """`POST /plain` opens (`X-Name`: an id of one's own), `/plain/step` plays, `/plain/ws` is a session of its own."""

    def __init__(self, env: ServedEnv) -> None:
        self.env = env

    def routes(self) -> Iterable[Route]:
        yield Route("POST", "/plain", self._open, {"summary": "Open a session."})
        yield Route("POST", "/plain/step", self._step, {"summary": "Take a step."})
        yield Route("DELETE", "/plain", self._close, {"summary": "Close a session."})
        yield Route("GET", "/plain/ws", self._socket)

    async def session_of(self, http: web.Request) -> str | None:
        return http.headers.get("X-Session") or http.headers.get("X-Name") or http.query.get("session_id")

    def refusal(self, error: BaseException, status: int) -> web.Response:
        return json_response({"plain": type(error).__name__, "message": str(error)}, status)

    async def _open(self, http: web.Request) -> web.Response:
        session = self.env.open(session_id=http.headers.get("X-Name"))
        begun = await session.reset(**await read_json(http))
        return json_response({"session": session.id, "pid": os.getpid(), "input": begun.request["input"]})

    async def _step(self, http: web.Request) -> web.Response:
        session = self.env.sessions.get(http.headers.get("X-Session", ""))
        body = await read_json(http)
        if body.get("die"):
            os._exit(7)
        step = await session.step(body.get("say"))
        return json_response({"reward": step.reward, "done": step.done, "pid": os.getpid()})

    async def _close(self, http: web.Request) -> web.Response:
        await self.env.sessions.close(self.env.sessions.get(http.headers.get("X-Session", "")))
        return json_response({})

    async def _socket(self, http: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(http)
        mine = http.query.get("session_id")
        closing: set[asyncio.Task[Any]] = set()

        def hang_up() -> None:
            closing.add(asyncio.create_task(socket.close(code=1001)))

        session = self.env.open(on_end=hang_up) if mine is None else self.env.sessions.get(mine)
        try:
            if mine is None:
                await session.reset()
            async for frame in socket:
                if frame.type is WSMsgType.BINARY:
                    await socket.send_bytes(frame.data[::-1])
                elif frame.data == "who":
                    await socket.send_str(dumps({"session": session.id, "pid": os.getpid()}).decode())
                else:
                    step = await session.step(frame.data)
                    await socket.send_str(dumps({"reward": step.reward, "done": step.done}).decode())
        finally:
            if mine is None:
                await self.env.sessions.close(session)
        return socket
