"""A client of NeMo Gym's wire, over a socket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from testing import Item, response, row

from gym_llm.serve.env_server import EnvServer
from gym_llm.serve.sessions import Sessions


class Client:
    """A client that keeps cookies, or one that does not."""

    def __init__(self, http: aiohttp.ClientSession, sessions: Sessions) -> None:
        self.http = http
        self.sessions = sessions

    async def post(self, path: str, body: Any, status: int = 200, **more: Any) -> Any:
        async with self.http.post(path, json=body, **more) as reply:
            text = await reply.text()
            assert reply.status == status, text
        try:
            return json.loads(text)
        except ValueError:
            return text

    async def verify(self, task: dict[str, Any], *items: Item, **fields: Any) -> Any:
        return await self.post("/verify", {**task, "response": response(*items, **fields)})


@asynccontextmanager
async def served(
    env_id: str = "gym_llm/Weather-v0",
    *,
    keeps_cookies: bool = True,
    protocols: tuple[str, ...] = ("nemo",),
    **options: Any,
) -> AsyncGenerator[Client, None]:
    options = {"tasks": [row()]} | options if env_id.startswith("test/") else options
    async with EnvServer(env_id, protocols=protocols, port=0, **options) as server:
        jar = aiohttp.CookieJar(unsafe=True) if keeps_cookies else aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(server.url, cookie_jar=jar) as http:
            yield Client(http, server.sessions)
