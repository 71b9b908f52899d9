"""Connections that send nothing never keep others out: their heads have a time limit, and few of them may wait."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import pytest
from testing import in_loop, row

from gym_llm.protocols.http import listener
from gym_llm.serve import EnvServer

HALF = b"GET /state HTTP/1.1\r\nHost: "
WHOLE = b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n"
TOKEN = "let-me-in-7!"


@contextmanager
def few_files(count: int) -> Generator[None, None, None]:
    """The limit of open files that a server finds when it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@asynccontextmanager
async def serving(files: int = 250, token: str | None = None) -> AsyncGenerator[EnvServer, None]:
    server = EnvServer("gym_llm/FollowUp-v0", tasks=[row("A?", expected_answer="yes")], port=0, token=token)
    with few_files(files):
        await server.__aenter__()
    try:
        yield server
    finally:
        await server.__aexit__(None, None, None)


class Raw:
    """Connections by their bytes."""

    def __init__(self, server: EnvServer) -> None:
        self.server = server
        self.opened: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def open(self, data: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        writer.write(data)
        self.opened.append((reader, writer))
        return reader

    def close(self) -> None:
        for _, writer in self.opened:
            writer.transport.abort()


@asynccontextmanager
async def raw(server: EnvServer) -> AsyncGenerator[Raw, None]:
    connections = Raw(server)
    try:
        yield connections
    finally:
        connections.close()


async def is_answered(server: EnvServer) -> bool:
    async with aiohttp.ClientSession(server.url) as client, asyncio.timeout(5), client.get("/state") as answer:
        return answer.status == 200


@pytest.mark.parametrize("data", [b"", HALF], ids=["silent", "half a head"])
@in_loop
async def test_half_open_connections_do_not_keep_others_out(data: bytes) -> None:
    async with serving() as server, raw(server) as hostile:
        for _ in range(300):
            await hostile.open(data)
        for _ in range(5):
            assert await is_answered(server)
            await hostile.open(data)


@in_loop
async def test_a_head_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.4)
    async with serving() as server, raw(server) as clients:
        kept = await clients.open(WHOLE % (b"/state", b""))
        assert b"200 OK" in await kept.readuntil(b"}\n")
        half, silent = await clients.open(HALF), await clients.open(b"")
        async with asyncio.timeout(5):
            assert await read_to_end(half) == await read_to_end(silent) == b""
        clients.opened[0][1].write(WHOLE % (b"/state", b""))  # was let in before: it may rest between its requests
        async with asyncio.timeout(5):
            assert b"200 OK" in await kept.readuntil(b"}\n")
            clients.opened[0][1].write(HALF)
            assert await read_to_end(kept) == b""


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@in_loop
async def test_strangers_take_no_place_of_a_client_with_a_token() -> None:
    async with serving(token=TOKEN) as server, raw(server) as clients:
        known = await clients.open(WHOLE % (b"/state", b"X-API-Key: %b\r\n" % TOKEN.encode()))
        assert b"200 OK" in await known.readuntil(b"}\n")
        for number in range(300):
            await clients.open(WHOLE % ((b"/health", b"/state")[number % 2], b""))
        clients.opened[0][1].write(WHOLE % (b"/state", b"X-API-Key: %b\r\n" % TOKEN.encode()))
        async with asyncio.timeout(5):
            assert b"200 OK" in await known.readuntil(b"}\n")


@in_loop
async def test_with_all_places_taken_by_episodes_a_connection_is_closed_at_once() -> None:
    async with serving(files=70) as server, aiohttp.ClientSession(server.url) as client:
        sockets: list[aiohttp.ClientWebSocketResponse] = []
        with pytest.raises(aiohttp.ClientError):
            while len(sockets) < 60:
                sockets += [await client.ws_connect("/ws")]
        assert 10 <= len(sockets) < 60
        for ws in sockets:
            await ws.send_str('{"type":"reset","data":{}}')
            assert "observation" in await ws.receive_str()
        await sockets.pop().close()
        async with asyncio.timeout(5):
            while True:
                try:
                    assert await is_answered(server)
                    break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)


@in_loop
async def test_a_name_of_several_addresses_has_one_port() -> None:
    server = EnvServer("gym_llm/FollowUp-v0", host="localhost", port=0)
    async with server:
        families = {info[0] for info in socket.getaddrinfo("localhost", server.port, type=socket.SOCK_STREAM)}
        for family in families:
            with socket.socket(family) as client:
                client.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", server.port))
