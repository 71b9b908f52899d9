"""Episodes over `/ws`: every message and error of OpenEnv 0.10, over a real connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import gymnasium as gym
import pytest
from aiohttp import WSMsgType
from testing import function_call, in_loop, message_item, row

from gym_llm import VerifierEnv, tool
from gym_llm.serve import EnvServer
from gym_llm.serve.openenv import connections as connections
from gym_llm.serve.openenv import socket

Ws = aiohttp.ClientWebSocketResponse


class Talks(VerifierEnv):
    """Two turns and a tool that waits; its verifier says what its name is told."""

    gate: asyncio.Event | None = None

    def __init__(self, *args: Any, breaks: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.breaks = breaks

    def setup(self, task: Any) -> None:
        if task.model_extra and task.model_extra.get("bad"):
            raise RuntimeError("the disk is full")

    @tool
    async def look(self, where: str = "here") -> str:
        """Look.

        Args:
            where: Where to.
        """
        if Talks.gate is not None:
            await Talks.gate.wait()
        return f"seen {where}"

    def verify(self, task: Any, episode: Any) -> float:
        if episode.answer == "raise":
            raise KeyError("no")
        return float(episode.answer == "yes")


ID = "test/OpenEnvTalks-v0"
gym.register(ID, Talks, disable_env_checker=True)
TASKS = [row("A?"), row("B?")]


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[tuple[EnvServer, aiohttp.ClientSession], None]:
    Talks.gate = None
    options = {"tasks": TASKS, "protocols": ["openenv"], "port": 0, **options}
    async with EnvServer(ID, **options) as server, aiohttp.ClientSession(server.url) as client:
        yield server, client


async def ask(ws: Ws, kind: str, data: Any = None, **more: Any) -> dict[str, Any]:
    """One message and its answer."""
    await ws.send_json({"type": kind, **({} if data is None else {"data": data}), **more})
    answer: dict[str, Any] = await ws.receive_json(timeout=10)
    return answer


async def refused(ws: Ws, kind: str, data: Any = None, **more: Any) -> dict[str, Any]:
    answer = await ask(ws, kind, data, **more)
    assert answer["type"] == "error", answer
    data = answer["data"]
    assert isinstance(data, dict)
    return data


@in_loop
async def test_an_episode_is_played():
    async with serving() as (server, client), client.ws_connect("/ws") as ws:
        begun = await ask(ws, "reset", {"task_index": 1, "episode_id": "mine", "whatever": 3})
        assert begun["type"] == "observation"
        assert begun["data"]["reward"] is None and begun["data"]["done"] is False
        observation = begun["data"]["observation"]
        assert set(observation) == {"request", "info", "truncated"}
        assert observation["request"]["input"][0]["content"] == "B?"
        step = await ask(ws, "step", {"output": [function_call("look", {"where": "up"})]})
        assert step["data"]["observation"]["request"]["input"][-1]["output"] == "seen up"
        assert (step["data"]["reward"], step["data"]["done"]) == (0.0, False)
        whole = {"output": [message_item("yes")], "status": "completed", "usage": {"output_tokens": 1}}
        ended = await ask(ws, "step", whole)
        assert (ended["data"]["reward"], ended["data"]["done"]) == (1.0, True)
        state = (await ask(ws, "state"))["data"]
        assert (state["episode_id"], state["step_count"], state["outcome"]) == ("mine", 2, "scored")
        assert (await ask(ws, "reset"))["data"]["done"] is False
        await ws.send_json({"type": "close"})
        assert (await ws.receive()).type is WSMsgType.CLOSE
        assert ws.close_code == 1000
        await _until(lambda: len(server.sessions) == 0)


@in_loop
async def test_a_text_is_an_action_and_so_are_openenvs_tool_actions():
    async with serving() as (_, client), client.ws_connect("/ws") as ws:
        listed = (await ask(ws, "step", {"type": "list_tools"}))["data"]
        assert [tool["name"] for tool in listed["observation"]["tools"]] == ["look"]
        assert listed["observation"]["tools"][0]["input_schema"]["properties"]["where"]["type"] == "string"
        await ask(ws, "reset", {"seed": 1})
        call = {"type": "call_tool", "tool_name": "look", "arguments": {"where": "down"}}
        called = (await ask(ws, "step", call))["data"]
        assert called["observation"]["result"] == "seen down" and called["observation"]["error"] is None
        called = (await ask(ws, "step", {"type": "call_tool", "tool_name": "no"}))["data"]
        assert called["observation"]["error"]["error_type"] == "tool_not_found"
        assert (await ask(ws, "step", {"output": "yes"}))["data"]["reward"] == 1.0


@in_loop
async def test_every_error_has_its_code_and_the_session_lives_on():
    async with serving() as (_, client), client.ws_connect("/ws") as ws:
        for text in ("{", "", "[1", "\x00"):
            await ws.send_str(text)
            assert (await ws.receive_json())["data"]["code"] == "INVALID_JSON"
        for text in ("[]", "3", "null"):
            await ws.send_str(text)
            assert (await ws.receive_json())["data"]["code"] == "VALIDATION_ERROR"
        assert (await refused(ws, "dance"))["code"] == "UNKNOWN_TYPE"
        assert (await refused(ws, "step", {"output": "yes"}))["code"] == "EXECUTION_ERROR"  # no episode
        for data in ({}, {"output": 3}, {"output": None}, [], "yes", {"type": "call_tool"}, {"seed": 1}):
            fault = await refused(ws, "step", data)
            assert fault["code"] == "VALIDATION_ERROR" and fault["errors"][0]["msg"], data
        fault = await refused(ws, "step")
        assert fault["errors"] == [{"type": "missing", "loc": ["data"], "msg": "Input should be a valid dictionary"}]
        assert (await refused(ws, "reset", {}, more=1))["errors"][0]["type"] == "extra_forbidden"
        for data in ({"seed": "x"}, {"seed": -1}, {"task_index": "1"}, {"task": 3}, {"split": "no", "index": 0}):
            assert (await refused(ws, "reset", data))["code"] == "VALIDATION_ERROR"
        assert (await refused(ws, "reset", {"task_index": 99}))["code"] == "EXECUTION_ERROR"
        assert (await ask(ws, "reset", {"split": "train", "index": 0}))["data"]["done"] is False
        assert (await refused(ws, "step", {"output": [{"type": "message"}]}))["code"] == "VALIDATION_ERROR"
        assert (await ask(ws, "step", {"output": "yes"}))["data"]["reward"] == 1.0


@in_loop
async def test_a_masked_episode_is_an_error_with_its_kind_and_no_reward():
    async with serving() as (_, client), client.ws_connect("/ws") as ws:
        await ask(ws, "reset", {"task_index": 0})
        fault = await refused(ws, "step", {"output": "raise"})
        assert fault["code"] == "EXECUTION_ERROR" and fault["failure_kind"] and fault["failure_phase"] == "verify"
        state = (await ask(ws, "state"))["data"]
        assert (state["outcome"], state["total_reward"], state["last"]) == ("masked", None, None)
        fault = await refused(ws, "reset", {"task": row("C?", bad=True)})
        assert fault["failure_phase"] == "setup" and "reward" not in fault
        assert (await ask(ws, "reset", {"task_index": 0}))["type"] == "observation"


@in_loop
async def test_an_environment_that_cannot_be_made_is_a_factory_error_and_the_end(monkeypatch: pytest.MonkeyPatch):
    async with serving() as (server, client), client.ws_connect("/ws") as ws:

        def fail() -> None:
            raise OSError("no such model")

        monkeypatch.setattr(server.envs[0].factory, "make", fail)
        fault = await refused(ws, "reset")
        assert (fault["code"], fault["factory_name"]) == ("FACTORY_ERROR", "OpenEnvTalks-v0")
        assert "no such model" not in fault["message"]
        assert (await ws.receive()).type is WSMsgType.CLOSE


@in_loop
async def test_there_is_room_for_so_many():
    async with serving(capacity=1) as (_, client), client.ws_connect("/ws") as first:
        await ask(first, "reset")
        async with client.ws_connect("/ws") as second:
            fault = (await second.receive_json())["data"]
            assert (fault["code"], fault["active_sessions"], fault["max_sessions"]) == ("CAPACITY_REACHED", 1, 1)
            assert (await second.receive()).type is WSMsgType.CLOSE
        await first.close()  # takes leave
        async with client.ws_connect("/ws") as third:
            answer = await ask(third, "reset")
            assert answer["type"] == "observation", answer


@in_loop
async def test_a_client_whose_connection_broke_goes_on_where_it_was():
    async with serving(capacity=1) as (server, client):
        ws = await client.ws_connect("/ws")
        await ask(ws, "reset", {"task_index": 0})
        session_id = (await ask(ws, "state"))["data"]["session_id"]
        await ws.send_json({"type": "step", "data": {"output": [function_call("look", {})]}})
        await _until(lambda: server.sessions.get(session_id).turn_rewards)
        ws._response.connection.transport.abort()  # type: ignore[union-attr]
        async with client.ws_connect(f"/ws?session_id={session_id}") as again:
            state = (await ask(again, "state"))["data"]
            assert state["step_count"] == 1 and state["last"]["done"] is False
            assert state["last"]["observation"]["request"]["input"][-1]["output"] == "seen here"
            assert (await ask(again, "step", {"output": "yes"}))["data"]["reward"] == 1.0
        await _until(lambda: len(server.sessions) == 0)


@in_loop
async def test_a_client_that_comes_back_is_told_of_a_step_under_way_when_it_is_done():
    async with serving() as (server, client):
        ws = await client.ws_connect("/ws")
        await ask(ws, "reset", {"task_index": 0})
        session_id = (await ask(ws, "state"))["data"]["session_id"]
        Talks.gate = asyncio.Event()
        await ws.send_json({"type": "step", "data": {"output": [function_call("look", {})]}})
        await _until(lambda: server.sessions.get(session_id).is_busy)
        ws._response.connection.transport.abort()  # type: ignore[union-attr]
        async with client.ws_connect(f"/ws?session_id={session_id}") as again:
            asked = [asyncio.create_task(ask(again, "state"))]
            asked.append(asyncio.create_task(_state_by_http(client, session_id)))
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in asked)
            Talks.gate.set()
            over_ws, by_http = (await asked[0])["data"], await asked[1]
            assert over_ws == by_http and over_ws["step_count"] == 1
            assert over_ws["last"]["observation"]["request"]["input"][-1]["output"] == "seen here"


async def _state_by_http(client: aiohttp.ClientSession, session_id: str) -> dict[str, Any]:
    async with client.get("/state", params={"session_id": session_id}) as answer:
        state: dict[str, Any] = await answer.json()
        return state


@in_loop
async def test_a_session_that_was_left_makes_room_and_ends_after_a_while(monkeypatch: pytest.MonkeyPatch):
    async with serving(capacity=1) as (server, client):

        async def leave() -> str:
            ws = await client.ws_connect("/ws")
            session_id: str = (await ask(ws, "state"))["data"]["session_id"]
            ws._response.connection.transport.abort()  # type: ignore[union-attr]
            await asyncio.sleep(0.1)
            return session_id

        await leave()
        left = await leave()  # in the place of the first
        assert len(server.sessions) == 1
        monkeypatch.setattr(connections, "GRACE_SECONDS", 0.05)
        await leave()
        await _until(lambda: len(server.sessions) == 0)
        async with client.ws_connect(f"/ws?session_id={left}") as ws:
            fault = (await ws.receive_json())["data"]
            assert fault["code"] == "SESSION_ERROR" and "Unknown session_id" in fault["message"]


@in_loop
async def test_a_session_is_one_connections_unless_that_is_dead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "_PING_SECONDS", 0.2)
    async with serving() as (_, client), client.ws_connect("/ws") as ws:
        session_id = (await ask(ws, "state"))["data"]["session_id"]
        reading = asyncio.create_task(ws.receive())  # answers pings, as clients do
        async with client.ws_connect(f"/ws?session_id={session_id}") as second:
            assert (await second.receive_json())["data"]["code"] == "SESSION_ERROR"
        reading.cancel()
        await asyncio.sleep(0)
        ws._response.connection.transport.pause_reading()  # type: ignore[union-attr]
        async with client.ws_connect(f"/ws?session_id={session_id}") as third:  # from now on it is this one's
            assert (await ask(third, "state"))["data"]["session_id"] == session_id


@in_loop
async def test_while_a_step_waits_pings_are_answered_and_messages_kept_in_order():
    async with serving() as (_, client), client.ws_connect("/ws") as ws:
        await ask(ws, "reset", {"task_index": 0})
        Talks.gate = asyncio.Event()
        await ws.send_json({"type": "step", "data": {"output": [function_call("look", {})]}})
        for _ in range(40):
            await ws.send_json({"type": "state"})
        await asyncio.sleep(0.05)
        Talks.gate.set()
        kinds = [(await ws.receive_json(timeout=10))["type"] for _ in range(41)]
        assert kinds == ["observation"] + ["state"] * 40
        Talks.gate = asyncio.Event()
        await ws.send_json({"type": "step", "data": {"output": [function_call("look", {})]}})
        await ws.ping(b"there?")
        await asyncio.sleep(0.05)
        Talks.gate.set()
        assert (await ws.receive_json())["type"] == "observation"


@in_loop
async def test_a_client_that_sends_much_and_reads_nothing_is_cut_off_and_harms_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "_SEND_SECONDS", 0.5)
    async with serving() as (server, client), client.ws_connect("/ws", max_msg_size=0) as ws:
        await ask(ws, "reset", {"task": row("x" * 200_000)})
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert b"101" in await reader.readline()
        first = json.dumps({"type": "reset", "data": {"task": row("y" * 200_000)}}).encode()
        writer.write(b"\x81\xff" + len(first).to_bytes(8, "big") + bytes(4) + first)
        state = b'{"type":"state"}'
        writer.write((b"\x81" + bytes((0x80 | len(state),)) + bytes(4) + state) * 2_000)  # answers of 400 MB
        await _until(lambda: len(server.sessions) == 2)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await _until(lambda: writer.transport.is_closing() or not _is_connected(server, 2), seconds=5)
        assert (await ask(ws, "state"))["type"] == "state"
        writer.transport.abort()


def _is_connected(server: EnvServer, count: int) -> bool:
    return sum(session.on_end is not None for session in server.sessions._sessions.values()) == count


@pytest.mark.parametrize(
    ("send", "code"),
    [("binary", 1003), ("long", 1009), ("broken", 1002)],
)
@in_loop
async def test_what_is_no_message_closes_the_connection(send: str, code: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GYM_LLM_MAX_REQUEST_BYTES", "1000")
    async with serving() as (_, client), client.ws_connect("/ws") as ws:
        if send == "binary":
            await ws.send_bytes(b"\x00")
        elif send == "long":
            await ws.send_str("x" * 2_000)
        else:
            ws._response.connection.transport.write(b"\xff\x00")  # type: ignore[union-attr]
        assert (await ws.receive(timeout=5)).type is WSMsgType.CLOSE
        assert ws.close_code == code


@in_loop
async def test_deep_json_is_an_error_like_another():
    async with serving() as (_, client), client.ws_connect("/ws") as ws:
        await ws.send_str("[" * 100_000)
        assert (await ws.receive_json())["data"]["code"] == "INVALID_JSON"
        await ask(ws, "reset", {"task_index": 0})
        deep = {"type": "reasoning", "summary": [], "x": json.loads("[" * 400 + "]" * 400)}
        assert (await ask(ws, "step", {"output": [deep]}))["type"] in ("observation", "error")
        assert (await ask(ws, "state"))["type"] == "state"
        await ws.send_str('{"type":' * 1_001 + "1" + "}" * 1_001)
        assert (await ws.receive_json())["data"]["code"] == "UNKNOWN_TYPE"
        assert (await ask(ws, "state"))["type"] == "state"


@in_loop
async def test_without_the_token_the_handshake_is_401():
    async with serving(token="let-me-in-please") as (_, client):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await client.ws_connect("/ws")
        assert refusal.value.status == 401
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await client.ws_connect("/ws", headers={"Origin": "http://evil.example"})
        assert refusal.value.status == 403
        async with client.ws_connect("/ws", headers={"Authorization": "Bearer let-me-in-please"}) as ws:
            assert (await ask(ws, "reset"))["type"] == "observation"


@in_loop
async def test_the_server_says_goodbye_when_it_ends_and_when_a_session_expires():
    async with serving(idle_seconds=0.4) as (_, client), client.ws_connect("/ws") as ws:
        await ask(ws, "reset")
        assert (await ws.receive(timeout=5)).data == 1001
    async with serving() as (_, client):
        ws = await client.ws_connect("/ws")
        await ask(ws, "reset")
        waiting = asyncio.create_task(ws.receive())
        await asyncio.sleep(0)
    assert (await waiting).type in (WSMsgType.CLOSE, WSMsgType.CLOSED)


@in_loop
async def test_what_asks_for_no_websocket_gets_none():
    async with serving() as (_, client):
        async with client.get("/ws") as answer:
            assert answer.status == 426
        headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "8"}
        async with client.get("/ws", headers=headers) as answer:
            assert answer.status == 400


async def _until(condition: Any, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
