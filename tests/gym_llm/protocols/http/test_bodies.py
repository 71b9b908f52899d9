"""All servers bound bodies alike: a body that is too large is refused unread, and other clients do not wait."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import aiohttp
import pytest
from testing import in_loop, row

from gym_llm import make_engine
from gym_llm.agents.capture import CaptureServer
from gym_llm.protocols.http import bodies, server_memory
from gym_llm.protocols.http.server_memory import MEMORY
from gym_llm.protocols.http.value_counter import NUMBERS_PER_VALUE, ValueCounter
from gym_llm.serve import EnvServer, ModelServer
from gym_llm.utils.limits import SERVER_BYTES


@pytest.fixture(autouse=True)
def no_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server that another test has left holds memory, makes room, or ends its sessions first."""
    monkeypatch.setattr(MEMORY, "holders", WeakSet())
    monkeypatch.setattr(MEMORY, "used", 0)


JSON = {"Content-Type": "application/json"}
LISTS = b'{"x":[' + b"[]," * 200_000 + b"0]}"
NAMES = b"{%b}" % b",".join(b'"%d":0' % number for number in range(200_000))
NUMBERS = b'{"x":[' + b"70000," * 3_000_000 + b"0]}"
ROUTES = [
    ("environments", "/reset"),
    ("environments", "/step"),
    ("environments", "/seed_session"),
    ("environments", "/verify"),
    ("environments", "/a_tool"),
    ("environments", "/mcp"),
    ("model", "/v1/responses"),
    ("model", "/v1/chat/completions"),
    ("model", "/v1/messages"),
    ("capture", "/sessions"),
    ("capture", "/v1/chat/completions"),
]


@asynccontextmanager
async def serving(kind: str) -> AsyncGenerator[aiohttp.ClientSession, None]:
    """A server of this kind, with a session whose cookie or key the client sends."""
    if kind == "environments":
        server: Any = EnvServer("gym_llm/FollowUp-v0", tasks=[row("A?", expected_answer="yes")], port=0)
    else:
        server = (ModelServer if kind == "model" else CaptureServer)(make_engine("constant:4"), port=0)
    jar = aiohttp.CookieJar(unsafe=True)
    async with server, aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", cookie_jar=jar) as client:
        if kind == "environments":
            await client.post("/seed_session", json=row("A?", expected_answer="yes"))
        elif kind == "capture":
            opened = await (await client.post("/sessions", json={})).json()
            client.headers["Authorization"] = f"Bearer {opened['session_id']}"
        yield client


def nested(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth < 5 and kind < 0.4:
        return [nested(rng, depth + 1) for _ in range(rng.randrange(5))]
    if depth < 5 and kind < 0.7:
        names = [str(number) + rng.choice(("", '"', "[,{")) for number in range(rng.randrange(5))]
        return {name: nested(rng, depth + 1) for name in names}
    return "".join(rng.choice('a"\\[]{},é') for _ in range(rng.randrange(9)))


def values_in(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + values_in(each) for each in value.values())
    return 1 + sum(map(values_in, value)) if isinstance(value, list) else 1


def test_values_are_counted_in_pieces_of_any_length() -> None:
    rng = random.Random(7)
    for _ in range(300):
        value = nested(rng)
        text, size = json.dumps(value, ensure_ascii=False).encode(), rng.choice((1, 2, 3, 7))
        counter = ValueCounter(0)
        for start in range(0, len(text), size):
            counter.feed(text[start : start + size])
        most = values_in(value) + text.count(b",") // NUMBERS_PER_VALUE
        assert values_in(value) <= counter.weight <= most, text


@pytest.mark.parametrize("body", [LISTS, NAMES, NUMBERS], ids=["lists", "names", "numbers"])
@pytest.mark.parametrize(("kind", "path"), ROUTES)
def test_a_body_of_many_values_is_refused_before_it_is_parsed(kind: str, path: str, body: bytes) -> None:
    async def main() -> None:
        async with serving(kind) as client:
            async with client.post(path, data=body, headers=JSON) as answer:
                assert answer.status == 413, await answer.text()
                assert answer.content_type == "application/json"
            async with client.get("/health") as answer:
                assert answer.status == 200

    asyncio.run(main())


@pytest.mark.parametrize(("kind", "path"), ROUTES)
def test_a_length_beyond_the_limit_is_refused_before_the_body_comes(kind: str, path: str) -> None:
    async def main() -> None:
        async with serving(kind) as client:
            headers = {**JSON, "Content-Length": str(1 << 30)}
            sent = client.post(path, data=never_ends(), headers=headers)
            async with asyncio.timeout(5), sent as answer:
                assert answer.status == 413

    asyncio.run(main())


async def never_ends() -> AsyncGenerator[bytes, None]:
    yield b"{"
    await asyncio.Event().wait()


@pytest.mark.parametrize(("kind", "path"), ROUTES)
def test_a_page_that_sends_text_is_refused(kind: str, path: str) -> None:
    async def main() -> None:
        async with serving(kind) as client:
            for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
                async with client.post(path, data=b"{}", headers={"Content-Type": content_type}) as answer:
                    assert answer.status == 415, (path, content_type)

    asyncio.run(main())


@in_loop
async def test_what_is_in_a_text_is_not_counted() -> None:
    async with serving("environments") as client:
        task = {**row("[{,\\" * 300_000, expected_answer='"' * 300_000)}
        async with client.post("/seed_session", json=task) as answer:
            assert answer.status == 200, await answer.text()


@in_loop
async def test_a_frame_of_many_values_ends_its_connection_only() -> None:
    async with serving("environments") as client, client.ws_connect("/ws") as other:
        async with client.ws_connect("/ws") as ws:
            await ws.send_str('{"type":"reset","data":{}}')
            assert (await ws.receive_json())["type"] == "observation"
            await ws.send_str(LISTS.decode())
            assert (await ws.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE and ws.close_code == 1009
        await other.send_str(
            json.dumps({"type": "reset", "data": {"task": row("[]," * 400_000, expected_answer="yes")}})
        )
        assert "[],[]" in (await other.receive_str())


@in_loop
async def test_a_message_in_many_long_frames_is_put_together() -> None:
    async with serving("environments") as client, client.ws_connect("/ws") as ws:
        text = json.dumps({"type": "reset", "data": {"task": row("é[1]" * 100_000, expected_answer="yes")}})
        writer = ws._writer  # type: ignore[attr-defined]
        data = text.encode()
        pieces = [data[start : start + 150_001] for start in range(0, len(data), 150_001)]
        for number, piece in enumerate(pieces):
            mask = bytes((1, 2, 3, number))
            head = bytes(((0x80 if number == len(pieces) - 1 else 0) | (0 if number else 1), 0xFF))
            masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(piece))
            writer.transport.write(head + len(piece).to_bytes(8, "big") + mask + masked)
        observation = (await ws.receive_json())["data"]["observation"]
        assert observation["request"]["input"][0]["content"] == "é[1]" * 100_000


@in_loop
async def test_a_large_body_waits_for_memory_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_BYTES, str(1 << 21))
    monkeypatch.setattr("gym_llm.protocols.http.server_memory._WAIT_SECONDS", 0.2)
    held = MEMORY.used
    async with serving("environments") as client:
        body = json.dumps(row("x" * (1 << 22), expected_answer="yes"))
        async with client.post("/seed_session", data=body, headers=JSON) as answer:
            assert answer.status == 503, await answer.text()
        async with client.post("/reset", json={}) as answer:
            assert answer.status == 200
    assert MEMORY.used == held


@in_loop
async def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SECONDS_TO_SEND", 0.2)
    async with serving("environments") as client:
        sent = client.post("/reset", data=never_ends(), headers=JSON)
        async with asyncio.timeout(10), sent as answer:
            assert answer.status == 408


@in_loop
async def test_the_sessions_that_hold_most_end_when_all_together_hold_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    held = MEMORY.used
    monkeypatch.setenv(SERVER_BYTES, str(held + (1 << 23)))
    async with serving("environments") as client, client.ws_connect("/ws") as modest:
        await modest.send_json({"type": "reset", "data": {"task_index": 0}})
        assert (await modest.receive_json())["type"] == "observation"
        kept = []
        for _ in range(12):  # each by itself is within the limit
            ws = await client.ws_connect("/ws")
            task = row("x" * 1_000_000, expected_answer="yes")
            await ws.send_json({"type": "reset", "data": {"task": task}})
            kept.append(ws)
            assert (await ws.receive_json())["type"] == "observation"
            assert MEMORY.used <= held + (1 << 23)
        ended = [ws for ws in kept if await is_closed(ws)]
        assert 4 <= len(ended) < 12
        await modest.send_json({"type": "step", "data": {"output": "yes"}})
        assert (await modest.receive_json())["data"]["done"] is True
    async with asyncio.timeout(5):
        while MEMORY.used != held:
            await asyncio.sleep(0.01)


async def is_closed(ws: aiohttp.ClientWebSocketResponse) -> bool:
    try:
        return (await ws.receive(timeout=0.2)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    except TimeoutError:
        return False


@in_loop
async def test_a_capture_session_with_most_of_the_memory_makes_no_more_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_BYTES, str(MEMORY.used + (1 << 20)))
    server = CaptureServer(make_engine("constant:4"), port=0)
    async with server, aiohttp.ClientSession(server.url) as client:

        async def ask(key: str, text: str) -> int:
            body = {"model": "any", "messages": [{"role": "user", "content": text}]}
            headers = {"Authorization": f"Bearer {key}"}
            async with client.post("/v1/chat/completions", json=body, headers=headers) as answer:
                return answer.status

        large, small = [(await (await client.post("/sessions", json={})).json())["session_id"] for _ in range(2)]
        statuses = [await ask(large, f"{number}" + "x" * 50_000) for number in range(40)]
        assert statuses[0] == 200 and statuses[-1] == 400
        assert await ask(small, "Hello") == 200
        await client.delete(f"/sessions/{large}")
        assert await ask(small, "y" * 50_000) == 200


def test_memory_that_is_released_while_a_trim_waits_is_trimmed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    trims = threading.Semaphore(0)
    memory = server_memory.ServerMemory()

    def trim() -> None:
        if threading.current_thread().function.__self__ is memory:  # type: ignore[attr-defined] # not of another test
            trims.release()

    monkeypatch.setattr(server_memory, "trim", trim)
    monkeypatch.setattr(server_memory, "_TRIM_SECONDS", 0.05)
    for _ in range(2):
        memory.release(1 << 23)
    assert trims.acquire(timeout=10) and trims.acquire(timeout=10)
    assert not trims.acquire(timeout=0.2)
