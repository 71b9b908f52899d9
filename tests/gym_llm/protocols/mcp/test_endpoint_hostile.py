"""An endpoint of MCP over real sockets: answers that take long, clients that leave, and what is no message."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import aiohttp
import pytest
from mcp_toolbox import Counters, Wire, code, stateless, talk

from gym_llm.protocols.http import bodies
from gym_llm.protocols.mcp import endpoint as endpoint_module

# -- answers that take long, and clients that leave --------------------------------------------------------------------


def test_an_answer_that_takes_long_is_a_stream_that_is_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "STREAM_AFTER_SECONDS", 0.1)

    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        _, text = await wire.ask("tools/call", name="wait", arguments={"seconds": 0.35})
        assert wire.last.headers["Content-Type"] == "text/event-stream"
        assert text.count(": waiting\n\n") >= 3 and text.endswith("\n\n")
        event = text.split("event: message\ndata: ")[1]
        assert json.loads(event)["result"]["content"] == [{"type": "text", "text": "waited"}]
        wire.headers["Accept"] = "application/json"
        answer = await wire.call("wait", seconds=0.3)
        assert answer["result"]["content"][0]["text"] == "waited"

    talk(conversation)


def test_who_takes_only_events_gets_an_event_and_who_takes_neither_is_told() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        wire.headers["Accept"] = "text/event-stream"
        status, text = await wire.ask("ping")
        assert status == 200 and text == 'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
        wire.headers["Accept"] = "text/html"
        assert code(await wire.ask("ping")) == (406, -32600)
        wire.headers["Accept"] = "*/*"
        assert (await wire.ask("ping"))[1]["result"] == {}

    talk(conversation)


async def leave(wire: Wire, body: Any, **headers: str) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await wire.post(body, **headers)


def test_a_client_that_vanishes_has_cancelled_a_stateless_call() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        body, headers = stateless("tools/call", "wait")
        await leave(wire, body, **headers)
        async with asyncio.timeout(5):
            await counters.of[None].cancelled.wait()

    talk(conversation)


def test_with_a_handshake_the_call_of_a_client_that_vanishes_goes_on() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        params = {"name": "wait", "arguments": {"seconds": 0.6}}
        await leave(wire, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        async with asyncio.timeout(5):
            await counters.of["session-1"].finished.wait()
        assert not counters.of["session-1"].cancelled.is_set()

    talk(conversation)


def test_a_notification_cancels_a_call_of_its_own_session_only() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        other = Wire(wire.http, wire.url)
        await wire.shake_hands()
        await other.shake_hands()
        call = asyncio.create_task(wire.ask("tools/call", 9, name="wait"))
        while not counters.of["session-1"].calls:
            await asyncio.sleep(0.01)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
        assert await other.post(cancel) == (202, "")
        await asyncio.sleep(0.1)
        assert not call.done()
        assert await wire.post(cancel) == (202, "")
        status, answer = await call
        assert status == 200 and answer["error"]["code"] == -32800 and answer["id"] == 9
        assert counters.of["session-1"].cancelled.is_set()

    talk(conversation)


def test_the_end_of_a_session_cancels_its_calls() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        toolbox = counters.of["session-1"]
        call = asyncio.create_task(wire.ask("tools/call", name="wait"))
        while not toolbox.calls:
            await asyncio.sleep(0.01)
        assert (await wire.http.delete(wire.url, headers=wire.headers)).status == 204
        assert (await call)[1]["error"]["code"] == -32800 and toolbox.cancelled.is_set()

    talk(conversation)


def test_only_so_many_calls_of_a_toolbox_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_LLM_MAX_CALLS", "64")

    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        answers = await asyncio.gather(*[wire.call("wait", number, seconds=0.5) for number in range(70)])
        assert sum("result" in answer for answer in answers) == 64
        assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32603] * 6
        assert "result" in await wire.call("add")

    talk(conversation)


# -- what is no message ------------------------------------------------------------------------------------------------

DEEP = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": ' + b"[" * 90_000 + b"]" * 90_000 + b"}}"
NESTED = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": ' + b"[" * 120 + b"]" * 120 + b"}}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, -32700)),
        (b"{", (400, -32700)),
        (b"\xff\xfe", (400, -32700)),
        (b"NaN", (400, -32700)),
        (DEEP, (400, -32700)),
        (NESTED, (400, -32600)),
        (b"5", (400, -32600)),
        (b"null", (400, -32600)),
        (b'{"id": 1, "method": "ping"}', (400, -32600)),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', (400, -32600)),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', (400, -32600)),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', (400, -32600)),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', (400, -32600)),
        (b'{"jsonrpc": "2.0", "id": 1}', (400, -32600)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', (400, -32600)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', (400, -32600)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}', (200, -32601)),
    ],
)
def test_what_is_no_message_is_answered_with_its_code(body: bytes, expected: tuple[int, int]) -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        assert code(await wire.post(body)) == expected
        assert (await wire.post({"jsonrpc": "2.0", "id": 1, "result": {}})) == (202, "")  # an answer to nothing

    talk(conversation)


def test_bodies_are_bounded_and_of_one_type() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        huge = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "' + b"x" * (5 << 20) + b'"}}'
        assert code(await wire.post(huge)) == (413, -32600)

        async def pieces() -> Any:
            for _ in range(50):
                yield b"x" * (1 << 17)

        headers = {**wire.headers, "Content-Type": "application/json"}
        try:
            async with wire.http.post(wire.url, data=pieces(), headers=headers) as answer:
                assert answer.status == 413
        except aiohttp.ClientError:
            pass  # refused before all was sent
        assert code(await wire.post(gzip.compress(huge), content_encoding="gzip")) == (400, -32700)  # read as it comes
        assert code(await wire.post(b"{}", content_type="text/plain")) == (415, -32600)
        assert (await wire.ask("ping"))[0] == 200
        assert code(await wire.post(b"no gzip", content_encoding="gzip")) == (400, -32700)

    talk(conversation)


def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SECONDS_TO_SEND", 0.2)

    async def conversation(wire: Wire, counters: Counters) -> None:
        address = wire.url.removeprefix("http://").removesuffix("/mcp")
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        writer.write(head.encode() + b'{"jsonrpc"')
        async with asyncio.timeout(5):
            assert b" 408 " in await reader.readline()
        writer.close()
        await writer.wait_closed()

    talk(conversation)
