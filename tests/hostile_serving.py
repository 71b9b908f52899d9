"""Hostile clients of an environment server: broken frames, clients that vanish, sessions that are opened and dropped.

Each session is given a task with a mark of its own. Whatever comes back over any connection is searched for marks of
others: finding one is the worst that can happen here.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp

_MARK = re.compile(rb"MARK-[0-9a-f]{12}")
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_LATE = 20.0
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 2**63, 1e308, "", "x" * 5_000, "\u0000", "\ud800", [], {}, [[]], {"a": {"b": None}}),
    *([None] * 50, {"type": "close"}, "MARK-", 10**40, {"role": "user"}, [{"type": "message"}], float("nan")),
)
ENV = "gym_llm/FollowUp-v0"


def mark() -> str:
    """A mark that no other session has."""
    return f"MARK-{os.urandom(6).hex()}"


def marked_row(text: str) -> dict[str, Any]:
    """A task of `ENV` that says a mark, again and again."""
    params = {"input": [{"role": "user", "content": f"Say {text}."}]}
    return {"responses_create_params": params, "follow_ups": [f"{text} again?"] * 3, "expected_answer": text}


class Findings:
    """What hostile clients have seen.

    Attributes:
        counts: What was sent, and how it was answered.
        wrong: Sentences: others' marks, HTTP's 5xx.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def look(self, data: bytes, own: str) -> None:
        """Search what came for others' marks."""
        for found in _MARK.findall(data):
            if found != own.encode():
                self.wrong.append(f"{own} was told of {found.decode()}: {data[:200]!r}")

    def status(self, status: int, what: str, allowed: tuple[int, ...] = ()) -> None:
        """Note an answer of HTTP."""
        self.counts[f"HTTP {status}"] += 1
        if status >= 500 and status not in allowed:
            self.wrong.append(f"{what}: HTTP {status}")


# -- frames ----------------------------------------------------------------------------------------------------------


def frame(payload: bytes, kind: int = _TEXT, *, last: bool = True, masked: bool = True, bits: int = 0) -> bytes:
    """A frame as a client sends it (RFC 6455), or as it should not."""
    head = bytes([(0x80 if last else 0) | bits | kind])
    mask_bit = 0x80 if masked else 0
    if len(payload) < 126:
        head += bytes([mask_bit | len(payload)])
    elif len(payload) < 1 << 16:
        head += bytes([mask_bit | 126]) + len(payload).to_bytes(2, "big")
    else:
        head += bytes([mask_bit | 127]) + len(payload).to_bytes(8, "big")
    if not masked:
        return head + payload
    key = os.urandom(4)
    whole = key * (len(payload) // 4 + 1)
    number = int.from_bytes(payload, "big") ^ int.from_bytes(whole[: len(payload)], "big")
    return head + key + number.to_bytes(len(payload), "big")


def messages(own: str) -> list[Any]:
    """What well-meaning clients say over `/ws` and `/mcp`."""
    return [
        {"type": "reset", "data": {"task": marked_row(own), "seed": 1, "episode_id": own}},
        {"type": "reset"},
        {"type": "step", "data": {"output": own}},
        {"type": "step", "data": {"output": [{"type": "message", "role": "assistant", "content": own}]}},
        {"type": "step", "data": {"type": "call_tool", "tool_name": "look", "arguments": {"a": own}}},
        {"type": "step", "data": {"type": "list_tools"}},
        {"type": "state"},
        {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}},
        {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "x"}}},
        {"type": "mcp", "data": {"jsonrpc": "2.0", "id": own, "method": "openenv/session/create"}},
    ]


def mutated(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """A value with something in it changed."""
    if depth > 6 or rng.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return rng.choice(_VALUES)
    if isinstance(value, list):
        value = list(value)
        place = rng.randrange(len(value))
        value[place] = mutated(value[place], rng, depth + 1)
        return value * rng.choice((1, 1, 3))
    key = rng.choice(list(value))
    changed = {**value, key: mutated(value[key], rng, depth + 1)}
    if rng.random() < 0.2:
        del changed[key]
    if rng.random() < 0.1:
        changed[rng.choice(("extra", "type", "session_id", "task_index", "split", "__class__"))] = rng.choice(_VALUES)
    return changed


def fuzzed(own: str, rng: random.Random) -> tuple[bytes, int, bool]:
    """Bytes that a hostile client sends, how many frames they are, and whether the connection has to end with them."""
    message = rng.choice(messages(own))
    if rng.random() < 0.6:
        message = mutated(message, rng)
    text = json.dumps(message).encode("utf-8", "replace")
    kind = rng.random()
    if kind < 0.55:
        return frame(text), 1, False
    if kind < 0.62:  # of several frames, with a ping between
        parts = [text[start : start + 20] for start in range(0, min(len(text), 400), 20)] or [b""]
        frames = [frame(part, _TEXT if not number else 0, last=False) for number, part in enumerate(parts)]
        frames.insert(rng.randrange(1, len(frames) + 1), frame(b"?", _PING))
        return b"".join([*frames, frame(b"", 0)]), len(frames) + 1, False
    if kind < 0.68:
        return frame(text[: rng.randrange(len(text) + 1)]), 1, False
    if kind < 0.74:
        return frame(bytes(rng.randrange(256) for _ in range(rng.randrange(60)))), 1, False  # mostly no UTF-8
    if kind < 0.80:
        return frame(os.urandom(rng.randrange(126)), rng.choice((_PING, _PONG))), 1, False
    if kind < 0.82:
        deep = rng.choice((b"[" * 5_000, b'{"a":' * 3_000, b"[" * 400 + b"]" * 400))
        return frame(deep), 1, False
    if kind < 0.83:
        return frame(b'{"type": "step", "data": {"output": "' + b"x" * 1_000_000 + b'"}}'), 1, False
    ends: list[Callable[[], bytes]] = [
        lambda: frame(os.urandom(rng.randrange(2_000)), _BINARY),
        lambda: frame(text, rng.choice((3, 4, 5, 6, 7, 11, 12, 13, 14, 15))),
        lambda: frame(text, bits=rng.choice((0x10, 0x20, 0x40, 0x70))),
        lambda: frame(text, masked=False),
        lambda: frame(text, 0),  # goes on with nothing
        lambda: frame(b"x" * 200, _PING),
        lambda: frame(b"x", _CLOSE, last=False),
        lambda: frame(text, last=False) + frame(text),
        lambda: bytes([0x81, 0xFF]) + rng.choice((2**31, 2**62, 2**63 - 1, 2**64 - 1)).to_bytes(8, "big") + b"abcd",
        lambda: frame(text)[: rng.randrange(1, len(text) + 2)],
        lambda: frame(rng.choice((0, 999, 1000, 1005, 1006, 3000, 65535)).to_bytes(2, "big") + b"\xff", _CLOSE),
        lambda: frame(b"\x03", _CLOSE),
        lambda: os.urandom(rng.randrange(1, 300)),
        lambda: frame(b'{"type": "close"}'),
    ]
    return rng.choice(ends)(), 1, True


@asynccontextmanager
async def raw_socket(
    url: str, path: str, headers: dict[str, str]
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """A WebSocket by its bytes, after the handshake; it ends without a word."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        lines = [f"GET {path} HTTP/1.1", f"Host: {place.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}", "Sec-WebSocket-Version: 13"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _LATE)
        if not head.startswith(b"HTTP/1.1 101"):
            raise ConnectionError(head.split(b"\r\n")[0].decode())
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def fuzz_sockets(
    url: str, frames: int, findings: Findings, *, paths: tuple[str, ...], headers: dict[str, str], seed: int = 0
) -> None:
    """Send so many frames over WebSockets, 16 of them at once; whoever is hung up on comes back."""
    left = frames

    async def client(number: int) -> None:
        nonlocal left
        rng = random.Random(f"{seed}/{number}")
        while left > 0:
            own = mark()
            async with raw_socket(url, rng.choice(paths), headers) as (reader, writer):
                findings.counts["connections"] += 1
                reading = asyncio.create_task(_read_all(reader, own, findings))
                for _ in range(rng.randrange(1, 60)):
                    data, count, ends = fuzzed(own, rng)
                    left -= count
                    findings.counts["frames"] += count
                    with suppress(ConnectionError):
                        writer.write(data)
                        await asyncio.wait_for(writer.drain(), _LATE)
                    if ends or reading.done() or left <= 0:
                        break
                if rng.random() < 0.5:  # else it vanishes
                    await asyncio.wait({reading}, timeout=0.05)
                reading.cancel()
                await asyncio.wait({reading})

    await asyncio.gather(*map(client, range(16)))


async def _read_all(reader: asyncio.StreamReader, own: str, findings: Findings) -> None:
    rest = b""
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            findings.counts["bytes read"] += len(data)
            findings.look(rest + data, own)
            rest = (rest + data)[-24:]


# -- sessions --------------------------------------------------------------------------------------------------------


async def open_socket(url: str, headers: dict[str, str], findings: Findings, held: list[Any]) -> None:
    """A session of OpenEnv's, which plays a turn; it is left open in `held`."""
    own = mark()
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    held.append(writer)
    lines = ["GET /ws HTTP/1.1", f"Host: {place.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    for message in ({"type": "reset", "data": {"task": marked_row(own)}}, {"type": "step", "data": {"output": "no"}}):
        writer.write(frame(json.dumps(message).encode()))
        head = await asyncio.wait_for(reader.readexactly(2), 60)
        length = head[1] & 0x7F
        if length > 125:
            length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
        payload = await reader.readexactly(length)
        findings.look(payload, own)
        if own.encode() not in payload or b"CAPACITY" in payload:
            findings.wrong.append(f"/ws: {payload[:200]!r}")


async def open_nemo(client: aiohttp.ClientSession, findings: Findings) -> None:
    """A session of NeMo Gym's, by its cookie."""
    own = mark()
    async with client.post("/seed_session", json=marked_row(own)) as answer:
        findings.status(answer.status, "/seed_session")
        findings.look(await answer.read() + str(answer.headers).encode(), own)
        cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
    async with client.post("/nothing", data=b"{}", headers={"Cookie": cookie}) as answer:
        findings.status(answer.status, "/TOOL")
        findings.look(await answer.read(), own)


async def open_mcp(client: aiohttp.ClientSession, findings: Findings) -> None:
    """A session of MCP's, by its header."""
    own = mark()
    headers = {"Accept": "application/json, text/event-stream"}
    asked: list[tuple[str, dict[str, Any]]] = [
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
        ),
        ("tools/call", {"name": "reset", "arguments": {"task": marked_row(own)}}),
        ("tools/call", {"name": "submit", "arguments": {"answer": "no"}}),
    ]
    for number, (method, params) in enumerate(asked):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        async with client.post("/mcp", json=body, headers=headers) as answer:
            findings.status(answer.status, f"/mcp {method}")
            data = await answer.read()
            findings.look(data, own)
            if number and own.encode() not in data:
                findings.wrong.append(f"/mcp {method}: {data[:200]!r}")
            if "mcp-session-id" in answer.headers:
                headers["mcp-session-id"] = answer.headers["mcp-session-id"]
                headers["mcp-protocol-version"] = "2025-11-25"


async def at_once(count: int, together: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do something so often, so many of them at a time."""
    left = count

    async def one() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await work()

    await asyncio.gather(*(one() for _ in range(together)))


# -- clients that are slow, or vanish --------------------------------------------------------------------------------


async def vanish(url: str, headers: dict[str, str], rng: random.Random) -> None:
    """Begin to ask something, and be gone: in the head, in the body, before the answer, or without reading it."""
    place = urlsplit(url)
    body = json.dumps(marked_row(mark())).encode()
    head = f"POST /seed_session HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    whole = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
    _, writer = await asyncio.open_connection(place.hostname, place.port)
    for data in rng.choice(
        (
            [whole[: rng.randrange(len(whole))]],
            [whole],
            [whole] * 20,
            [chunked + b"5\r\nabc"],
            [chunked + b"FFFFFFFFFFFF\r\n{}"],
            [chunked + b"zz\r\n"],
            [f"{head}Content-Length: 999999999999\r\n\r\n".encode() + b"{"],
            [f"{head}Content-Length: -1\r\n\r\n".encode()],
            [b"GET / HTTP/9.9\r\n\r\n"],
            [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(100)],
            [b"X" * 70_000],
        )
    ):
        writer.write(data)
        with suppress(ConnectionError):
            await writer.drain()
        if rng.random() < 0.3:
            await asyncio.sleep(0.02)
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def figures(client: aiohttp.ClientSession) -> dict[str, float]:
    """A server's metrics."""
    async with client.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] not in ("", "#"))
    }
