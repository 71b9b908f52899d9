"""OpenEnv's addresses beside `/ws`: what the environment is, its tasks, sessions over `/mcp`, single calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from testing import in_loop, row

from gym_llm.errors import UsageError
from gym_llm.serve import EnvServer

ID = "gym_llm/Weather-v0"
Answer = tuple[int, Any]


@asynccontextmanager
async def serving(env_id: str = ID, **options: Any) -> AsyncGenerator[aiohttp.ClientSession, None]:
    options = {"protocols": ["openenv"], "port": 0, **options}
    async with EnvServer(env_id, **options) as server, aiohttp.ClientSession(server.url) as client:
        yield client


async def get(client: aiohttp.ClientSession, path: str) -> Answer:
    async with client.get(path) as answer:
        return answer.status, await answer.json()


async def post(client: aiohttp.ClientSession, path: str, body: Any = None, **options: Any) -> Answer:
    async with client.post(path, **({"json": body} if body is not None else {}), **options) as answer:
        return answer.status, await answer.json()


async def rpc(client: aiohttp.ClientSession, method: str, **params: Any) -> dict[str, Any]:
    status, answer = await post(client, "/mcp", {"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert (status, answer["jsonrpc"], answer["id"]) == (200, "2.0", 7)
    assert isinstance(answer, dict)
    return answer


@in_loop
async def test_the_environment_says_what_it_is():
    async with serving() as client:
        assert await get(client, "/health") == (200, {"status": "healthy"})
        _, metadata = await get(client, "/metadata")
        assert metadata["name"] == "Weather-v0" and metadata["description"] and metadata["version"]
        assert set(metadata) == {*("name", "description", "readme_content", "version", "author", "documentation_url")}
        _, schema = await get(client, "/schema")
        assert set(schema) == {"action", "observation", "state", "reset_observation"}
        assert {each["title"] for each in schema["action"]["anyOf"]} == {
            *("ResponsesAction", "CallToolAction", "ListToolsAction")
        }
        _, document = await get(client, "/openapi.json")
        assert {"/reset", "/step", "/state", "/mcp", "/{env_name}/splits"} <= set(document["paths"])


@in_loop
async def test_single_calls_have_a_session_of_their_own_unless_they_name_one():
    async with serving() as client:
        status, begun = await post(client, "/reset", {"seed": 3})
        assert (status, begun["reward"], begun["done"]) == (200, None, False)
        assert (await post(client, "/reset"))[0] == 200
        status, refused = await post(client, "/step", {"action": {"output": "hi"}})
        assert status == 400 and "has a session of its own" in refused["detail"]  # and says how to have one that stays
        assert await get(client, "/state") == (200, {"episode_id": None, "step_count": 0})
        mine = {"session_id": (await rpc(client, "openenv/session/create"))["result"]["session_id"]}
        await post(client, "/reset", {"seed": 3, **mine})
        status, step = await post(client, "/step", {"action": {"output": "hi"}, **mine})
        assert (status, step["done"]) == (200, True)
        assert (await get(client, f"/state?session_id={mine['session_id']}"))[1]["step_count"] == 1
        assert (await post(client, "/step", {"action": {}}))[0] == 422
        status, fault = await post(client, "/step", {})
        assert (status, fault["detail"][0]["loc"]) == (422, ["body", "action"])
        assert (await post(client, "/reset", {"seed": "x"}))[0] == 422
        assert (await post(client, "/reset", data=b"{"))[0] == 422
        assert (await post(client, "/reset", {"session_id": "no"}))[0] == 404


@in_loop
async def test_sessions_over_mcp_are_closed_by_who_made_them():
    async with serving() as client:
        assert (await post(client, "/mcp", {}))[1]["error"]["code"] == -32600
        assert (await post(client, "/mcp", data=b"no json"))[1]["error"]["code"] == -32700
        assert (await rpc(client, "tools/dance"))["error"]["code"] == -32601
        assert (await rpc(client, "tools/list"))["result"]["tools"][0]["name"] == "get_weather"
        mine = (await rpc(client, "openenv/session/create"))["result"]
        called = await rpc(client, "tools/call", name="get_weather", arguments={"city": "Rome"}, **mine)
        assert "Rome" in called["result"]["data"] == called["result"]["content"][0]["text"]
        assert (await rpc(client, "tools/call", name="no", **mine))["error"]["code"] == -32602
        assert (await rpc(client, "tools/call", **mine))["error"]["code"] == -32602
        assert (await rpc(client, "tools/call", name="get_weather", session_id="x"))["error"]["code"] == -32602
        assert (
            "Rome"
            in (await rpc(client, "tools/call", name="get_weather", arguments={"city": "Rome"}))["result"]["data"]
        )
        async with client.ws_connect(f"/ws?session_id={mine['session_id']}") as ws:
            await ws.send_json({"type": "state"})
            assert (await ws.receive_json())["data"]["step_count"] == 2
            await ws.send_json({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}})
            answer = await ws.receive_json()
            assert answer["type"] == "mcp" and answer["data"]["result"]["tools"]
            closed = (await rpc(client, "openenv/session/close", **mine))["result"]
            assert closed == {**mine, "closed": False, "closing": True}
            await ws.send_json({"type": "close"})
            await ws.receive()
        assert (await rpc(client, "openenv/session/close", **mine))["error"]["code"] == -32602
        mine = (await rpc(client, "openenv/session/create"))["result"]
        assert (await rpc(client, "openenv/session/close", **mine))["result"]["closed"] is True


@in_loop
async def test_a_websocket_at_mcp_speaks_json_rpc_in_a_session_of_its_own():
    async with EnvServer(ID, port=0, capacity=1) as server, aiohttp.ClientSession(server.url) as client:
        async with client.ws_connect("/mcp") as ws:
            for text, code in (("{", -32700), ("[]", -32600), ('{"jsonrpc": "2.0", "method": "x"}', -32601)):
                await ws.send_str(text)
                assert (await ws.receive_json())["error"]["code"] == code
            call = {"name": "get_weather", "arguments": {"city": "Rome"}}
            await ws.send_json({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": call})
            answer = await ws.receive_json()
            assert answer["id"] == "a" and "Rome" in answer["result"]["data"]
            async with client.ws_connect("/mcp") as second:
                assert (await second.receive_json())["error"]["data"] == {"active_sessions": 1, "max_sessions": 1}
        assert len(server.sessions) == 0
        async with client.get("/mcp") as answer:  # that is MCP's
            assert answer.status != 426


@in_loop
async def test_what_fails_in_the_server_is_an_error_of_json_rpc_too(monkeypatch: pytest.MonkeyPatch):
    async with EnvServer(ID, protocols=["openenv"], port=0) as server, aiohttp.ClientSession(server.url) as client:

        def fail() -> None:
            raise OSError("/etc/secret is not there")

        monkeypatch.setattr(server.envs[0].factory, "make", fail)
        error = (await rpc(client, "tools/call", name="get_weather", session_id=""))["error"]
        assert error["code"] == -32603 and "secret" not in error["message"]


@in_loop
async def test_a_session_of_another_environment_is_none():
    async with serving([ID, "gym_llm/Counter-v0"]) as client:  # type: ignore[arg-type]
        mine = (await rpc(client, "openenv/session/create"))["result"]
        async with client.ws_connect(f"/Counter-v0/ws?session_id={mine['session_id']}") as ws:
            assert (await ws.receive_json())["data"]["code"] == "SESSION_ERROR"
        async with client.ws_connect("/Counter-v0/ws") as ws:
            await ws.send_json({"type": "step", "data": {"type": "list_tools"}})
            tools = (await ws.receive_json())["data"]["observation"]["tools"]
            assert "increment_counter" in {tool["name"] for tool in tools}


@in_loop
async def test_the_task_api_shows_what_a_model_is_shown():
    tasks = [row(f"{number}?", expected_answer=f"secret {number}") for number in range(5)]
    async with serving("gym_llm/FollowUp-v0", tasks=tasks) as client:
        assert await get(client, "/list_environments") == (200, ["FollowUp-v0"])
        assert await get(client, "/followup-V0/splits") == (200, [{"name": "train", "type": "train"}])
        assert (await get(client, "/Other-v0/splits"))[0] == 404
        train = {"split": "train"}
        assert await post(client, "/FollowUp-v0/num_tasks", train) == (200, {"num_tasks": 5})
        _, listed = await post(client, "/FollowUp-v0/tasks", train)
        assert [task["index"] for task in listed["tasks"]] == [0, 1, 2, 3, 4]
        assert listed["env_name"] == "FollowUp-v0" and "secret" not in str(listed)
        _, one = await post(client, "/FollowUp-v0/task", {**train, "index": 3})
        assert one["task"]["request"]["input"][0]["content"] == "3?"
        for index in (5, -1):
            wrong = await post(client, "/FollowUp-v0/task", {**train, "index": index})
            assert wrong == (400, {"detail": "Invalid task index"})
        for bounds, indices in (
            ({"start": 3}, [3, 4]),
            ({"start": -2, "stop": -1}, [3]),
            ({"stop": 9}, [0, 1, 2, 3, 4]),
        ):
            _, some = await post(client, "/FollowUp-v0/task_range", {**train, **bounds})
            assert [task["index"] for task in some["tasks"]] == indices
        assert (await post(client, "/FollowUp-v0/tasks", {"split": "test"}))[0] == 400
        for body in ({}, {**train, "index": "x"}, {**train, "index": 1, "more": 1}):
            status, fault = await post(client, "/FollowUp-v0/task", body)
            assert status == 422 and fault["detail"][0]["loc"][0] == "body"


@in_loop
async def test_the_task_api_is_there_beside_nemo_gyms_tools():
    tasks = [row(text, expected_answer="4") for text in ("A?", "B?")]
    async with serving("gym_llm/FollowUp-v0", tasks=tasks, protocols=None) as client:
        _, names = await get(client, "/list_environments")
        name = names[0]
        for prefix in ("", f"/{name}"):
            assert await post(client, f"{prefix}/{name}/num_tasks", {"split": "train"}) == (200, {"num_tasks": 2})
            _, one = await post(client, f"{prefix}/{name}/task", {"split": "train", "index": 1})
            assert one["task"]["request"]["input"][0]["content"] == "B?"


@in_loop
async def test_a_body_that_is_too_large_is_said_to_be(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GYM_LLM_MAX_REQUEST_BYTES", "1000")
    async with serving(protocols=None) as client:
        for path in ("/step", "/verify", "/mcp"):
            status, answer = await post(client, path, {"action": {"output": "x" * 2000}})
            assert status == 413 and "at most" in str(answer)


@in_loop
async def test_tasks_without_end_are_not_counted():
    async with serving("gym_llm/Blackjack-v0") as client:
        status, answer = await post(client, "/Blackjack-v0/num_tasks", {"split": "train"})
        assert status == 501 and "not supported" in answer["detail"]
        assert (await post(client, "/Blackjack-v0/task", {"split": "train", "index": 12}))[0] == 200


@in_loop
async def test_in_production_mode_episodes_are_not_controlled_over_http(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENENV_MODE", "Production")
    async with serving() as client:
        for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state")):
            async with client.request(method, path) as answer:
                assert answer.status == 404
        _, document = await get(client, "/openapi.json")
        assert not {"/reset", "/step", "/state"} & set(document["paths"])
        assert (await rpc(client, "openenv/session/create"))["result"]["session_id"]
    monkeypatch.setenv("OPENENV_MODE", "fast")
    with pytest.raises(UsageError, match="OPENENV_MODE"):
        async with serving():
            pass
