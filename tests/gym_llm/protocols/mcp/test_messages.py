"""JSON-RPC as bytes: whatever comes, there is an answer in the protocol's form, with the id that was asked with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_toolbox import Counters, Wire, serving, stateless
from testing import often

from gym_llm.protocols.mcp import McpError
from gym_llm.protocols.mcp.jsonrpc import MOST_LEVELS, parse, read_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
METHODS = ["initialize", "ping", "tools/list", "tools/call", "prompts/list", "prompts/get", "server/discover"]
METHODS += ["notifications/initialized", "notifications/cancelled", "logging/setLevel", ""]
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["add", "task", "break", "é"]) | JSON,
        "arguments": st.fixed_dictionaries({}, optional={"by": st.integers(-9, 9)}) | JSON,
        "cursor": JSON,
        "protocolVersion": JSON,
        "requestId": JSON,
        "_meta": JSON | st.just(stateless("x")[0]["params"]["_meta"]),
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text(max_size=9) | JSON,
        "method": st.sampled_from(METHODS) | JSON,
        "params": PARAMS | JSON,
        "result": JSON,
    },
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "mcp_protocol_version": st.sampled_from(["2025-03-26", "2025-11-25", "2026-07-28", "1", ""]),
        "mcp_method": st.sampled_from(METHODS[:-1]),
        "mcp_name": st.sampled_from(["add", "=?base64?YWRk?=", "=?base64?\xff?="]),
        "mcp_session_id": st.sampled_from(["session-1", "session-2", "\xff", " "]),
        "accept": st.sampled_from(["*/*", "text/event-stream", "application/json", ",;q=", "image/png"]),
    },
)


@contextmanager
def asking() -> Iterator[Any]:
    """A function that posts a body, in a loop that goes on between examples."""
    with asyncio.Runner() as runner:
        counters = Counters()
        context = serving(counters)
        url, _ = runner.run(context.__aenter__())
        http = runner.run(_session())
        wire = Wire(http, url)
        runner.run(wire.shake_hands("2025-03-26"))
        del wire.headers["MCP-Protocol-Version"]
        try:
            yield lambda body, **headers: runner.run(wire.post(body, **headers))
        finally:
            runner.run(http.close())
            runner.run(context.__aexit__(None, None, None))


async def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()


def check(status: int, said: Any, asked: Any) -> None:
    """An answer has the protocol's form, and repeats the id if there was one that can be repeated."""
    assert status in (200, 202, 400, 404, 406), said
    if status == 202:
        assert said == ""
        return
    if isinstance(said, str):
        assert said.startswith("event: message\ndata: ") and said.endswith("\n\n")
        said = json.loads(said.removeprefix("event: message\ndata: "))
    if isinstance(said, list):
        assert isinstance(asked, list) and 0 < len(said) <= len(asked)
        return
    assert said["jsonrpc"] == "2.0" and ("result" in said) != ("error" in said)
    if "error" in said:
        assert isinstance(said["error"]["code"], int) and said["error"]["message"]
        assert "Traceback" not in said["error"]["message"]
    name = asked.get("id") if isinstance(asked, dict) else None
    repeatable = isinstance(name, str | int) and not isinstance(name, bool)
    if status != 406 and "id" in said and repeatable and abs(name if isinstance(name, int) else 0) < 1 << 63:
        assert said["id"] == name


@pytest.mark.slow
def test_every_message_has_an_answer_of_the_protocols_form() -> None:
    with asking() as ask:

        @settings(max_examples=often(133, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(st.one_of(MESSAGES, MESSAGES, JSON, st.lists(MESSAGES, max_size=4)), HEADERS)
        def talk(message: Any, headers: dict[str, str]) -> None:
            status, said = ask(message, **headers)
            check(status, said, message)

        talk()
        assert ask({"jsonrpc": "2.0", "id": 1, "method": "ping"})[1]["result"] == {}


@pytest.mark.slow
def test_bytes_that_were_a_message_once_are_answered() -> None:
    whole = json.dumps(stateless("tools/call", "add", arguments={"by": 1})[0]).encode()
    with asking() as ask:

        @settings(max_examples=often(100, 200), deadline=None)
        @given(st.integers(0, len(whole)), st.integers(0, len(whole)), st.binary(max_size=8))
        def cut(start: int, end: int, middle: bytes) -> None:
            body = whole[: min(start, end)] + middle + whole[max(start, end) :]
            status, said = ask(body)
            assert status in (200, 202, 400, 404)
            assert status == 202 or said["jsonrpc"] == "2.0"

        cut()


@given(JSON)
def test_what_is_read_as_a_message_has_a_method_params_and_an_id(value: Any) -> None:
    try:
        message = read_message(parse(json.dumps(value).encode()))
    except McpError as error:
        assert error.code in (-32700, -32600) and error.status == 400
    else:
        assert message is None or (isinstance(message.method, str) and isinstance(message.params, dict))


def test_messages_are_as_deep_as_the_limit_and_no_deeper() -> None:
    for levels in (MOST_LEVELS - 1, MOST_LEVELS):
        assert parse(b"[" * levels + b"]" * levels) is not None
        assert parse(b'{"a":' * levels + b"1" + b"}" * levels) is not None
    for levels in (MOST_LEVELS + 1, MOST_LEVELS + 2, 900, 100_000):
        with pytest.raises(McpError):
            parse(b"[" * levels + b"]" * levels)
    wide = b"[" + b",".join([b"{}"] * 50_000) + b"]"
    assert len(parse(wide)) == 50_000
