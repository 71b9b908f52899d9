"""Messages between a server's processes are counted in the memory of the process that forwards them."""

from __future__ import annotations

import os
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType
from testing import in_loop, row

from gym_llm.protocols.http import server_memory
from gym_llm.protocols.http.server_memory import MEMORY
from gym_llm.serve import EnvServer
from gym_llm.serve.forwarding import Forwarding
from gym_llm.serve.server_worker import WorkerOrder
from gym_llm.utils.limits import SERVER_BYTES, limit

ID = "gym_llm/FollowUp-v0"
OPTIONS = {"env_ids": ID, "protocols": ["plain_wire:PlainWire"], "tasks": [row("A?", expected_answer="yes")]}


@in_loop
async def test_a_large_message_waits_for_room_in_the_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server_memory, "_WAIT_SECONDS", 0.1)
    worker, place = WorkerOrder(0, 0, "secret", {**OPTIONS, "port": 0}, str(tmp_path)).server()
    front = Forwarding("secret")
    async with (
        worker,
        EnvServer(**OPTIONS, port=0, forwarding=front) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        front.update([place.place])
        opened = await (await client.post("/plain")).json()
        url, before, data = f"/plain/ws?session_id={opened['session']}", MEMORY.used, os.urandom(300_000)
        async with client.ws_connect(url) as socket:
            await socket.send_bytes(data)
            assert await socket.receive_bytes() == data[::-1]
            assert MEMORY.used == before
            held = limit(SERVER_BYTES) - before - len(data) // 2
            MEMORY.add(held)
            try:
                await socket.send_bytes(data)
                message = await socket.receive()
            finally:
                MEMORY.release(held)
            assert (message.type, message.data) == (WSMsgType.CLOSE, 1013)
        await front.aclose()
        assert MEMORY.used == before
