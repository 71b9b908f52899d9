"""The engine's client on raw sockets: what it sends, and which connections it keeps."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from yarl import URL

from gym_llm.engines.http_client import Endpoint, open_session

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def with_server(*replies: bytes, client: Callable[[aiohttp.ClientSession, URL], Coroutine[Any, Any, Any]]) -> list[Any]:
    """The requests (connection's number, bytes) that a client sends to a server with these replies, and its result."""
    requests: list[tuple[int, bytes]] = []
    connections: list[asyncio.StreamWriter] = []
    left = iter(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        number = len(connections)
        while head := await reader.read(65_536):
            requests.append((number, head))
            reply = next(left)
            writer.write(reply)
            if not reply:
                writer.close()

    async def run() -> Any:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with open_session({"Content-Type": "application/json", "Authorization": "Bearer k"}) as session:
                result = await client(session, URL(f"http://127.0.0.1:{port}/v1/chat%20it"))
            for writer in connections:
                writer.close()
        return result

    result = asyncio.run(run())
    return [requests, result]


async def post(session: aiohttp.ClientSession, url: URL, *, times: int = 1) -> list[bytes]:
    endpoint = Endpoint(session, url)
    bodies = []
    for _ in range(times):
        async with endpoint.post(b'{"a": 1}') as reply:
            assert reply.url == url
            bodies.append(await reply.content.read())
    return bodies


def test_a_post_sends_the_bytes_that_a_session_sends_and_keeps_the_connection():
    async def both(session: aiohttp.ClientSession, url: URL) -> None:
        await post(session, url, times=2)
        async with session.post(url, data=b'{"a": 1}') as reply:
            await reply.read()

    requests, _ = with_server(REPLY, REPLY, REPLY, client=both)
    assert [number for number, _ in requests] == [1, 1, 1]
    heads = [sorted(request.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")) for _, request in requests]
    assert heads[0] == heads[1] == heads[2] and b"authorization: bearer k" in heads[0]
    assert {request.partition(b"\r\n\r\n")[2] for _, request in requests} == {b'{"a": 1}'}


def test_an_interim_reply_is_passed_over():
    assert with_server(b"HTTP/1.1 100 Continue\r\n\r\n" + REPLY, client=post)[1] == [b"ok"]


def test_a_body_that_was_not_read_closes_its_connection():
    async def leave(session: aiohttp.ClientSession, url: URL) -> None:
        async with Endpoint(session, url).post(b"{}") as reply:
            assert reply.status == 404 and reply.reason == "Not Found"
        await post(session, url)

    requests, _ = with_server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nhalf", REPLY, client=leave)
    assert [number for number, _ in requests] == [1, 2]


@pytest.mark.parametrize(
    ("reply", "error"), [(b"", aiohttp.ServerDisconnectedError), (b"SSH-2.0\r\n\r\n", aiohttp.ClientResponseError)]
)
def test_a_failure_is_aiohttps_and_its_connection_is_not_kept(reply, error):
    async def fail_and_go_on(session: aiohttp.ClientSession, url: URL) -> None:
        with pytest.raises(error):
            await post(session, url)
        await post(session, url)

    requests, _ = with_server(reply, REPLY, client=fail_and_go_on)
    assert [number for number, _ in requests] == [1, 2]


def test_a_cancelled_post_closes_its_connection():
    async def cancel(session: aiohttp.ClientSession, url: URL) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await post(session, url)
        await post(session, url)

    requests, _ = with_server(b"HTTP/1.1 200", REPLY, client=cancel)
    assert [number for number, _ in requests] == [1, 2]
