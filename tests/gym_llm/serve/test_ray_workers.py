"""Workers on a Ray cluster: the front has none of the sessions, and all of the answers."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import aiohttp
from testing import in_loop, row

from gym_llm.serve import EnvWorkers

ID = "gym_llm/FollowUp-v0"
TASKS = [row("A?", expected_answer="yes", follow_ups=["And?"] * 9)]


async def ask(url: str, method: str, path: str, **options: Any) -> tuple[int, Any]:
    async with aiohttp.request(method, f"{url}{path}", **options) as answer:
        return answer.status, await answer.json(content_type=None)


@in_loop
async def test_actors_play_and_one_that_dies_is_started_again(ray):
    address = ray.get_runtime_context().gcs_address
    server = EnvWorkers(
        ID, workers=2, ray_address=address, protocols=["plain_wire:PlainWire"], tasks=TASKS, port=0, capacity=40
    )
    async with server, aiohttp.ClientSession() as client:
        opened = [(await ask(server.url, "POST", "/plain"))[1] for _ in range(16)]
        assert len({session["pid"] for session in opened} - {os.getpid()}) == 2
        for session in opened:
            mine = {"X-Session": session["session"]}
            status, step = await ask(server.url, "POST", "/plain/step", headers=mine, json={"say": "no"})
            assert (status, step["pid"]) == (200, session["pid"])
        async with client.ws_connect(f"{server.url}/plain/ws?session_id={opened[0]['session']}") as socket:
            await socket.send_str("who")
            assert await socket.receive_json() == {"session": opened[0]["session"], "pid": opened[0]["pid"]}
        async with client.get(f"{server.url}/metrics") as answer:
            told = await answer.text()
        assert "gym_llm_sessions_open 16\n" in told and "gym_llm_sessions_capacity 40\n" in told

        mine = {"X-Session": opened[0]["session"]}
        for _ in range(2):
            status, said = await ask(server.url, "POST", "/plain/step", headers=mine, json={"die": True})
            assert (status, said["plain"]) == (404, "SessionLost")
        async with asyncio.timeout(60):
            while "g1-" not in (await ask(server.url, "POST", "/plain"))[1].get("session", ""):
                await asyncio.sleep(0.2)
