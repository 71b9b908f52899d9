"""Environments over MCP: every client plays an episode of its own, with the rewards that it would have in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import gymnasium as gym
import pytest
from mcp_toolbox import Wire, code, stateless
from testing import function_call, in_loop, message_item, row

from gym_llm import VerifierEnv, tool
from gym_llm.serve import EnvServer

TALK = [
    row("What is 3 + 6?", follow_ups=["And 2 more?"], expected_answer="11"),
    row("What is 2 + 2?", follow_ups=[], expected_answer="4"),
]
COUNT = [row(f"Count to {n}.", initial_count=0, expected_count=n) for n in range(4)]


@asynccontextmanager
async def serving(
    env_id: str | list[str], tasks: Any = None, **options: Any
) -> AsyncGenerator[tuple[EnvServer, Any], None]:
    options = {"tasks": tasks, "port": 0, "protocols": ["mcp"], **options}
    async with EnvServer(env_id, **options) as server, aiohttp.ClientSession() as http:
        yield server, lambda query="": Wire(http, f"{server.url}/mcp{query}")


def text(answer: Any) -> str:
    return "\n".join(block["text"] for block in answer["result"]["content"])


def data(answer: Any) -> Any:
    return answer["result"]["structuredContent"]


async def names(wire: Wire) -> list[str]:
    return [each["name"] for each in (await wire.ask("tools/list"))[1]["result"]["tools"]]


@in_loop
async def test_a_task_is_asked_for_played_and_scored():
    async with serving("gym_llm/Counter-v0", COUNT) as (server, client):
        wire = client()
        assert "Call `reset` for a task." in (await wire.shake_hands())["instructions"]
        assert await names(wire) == ["increment_counter", "get_counter_value", "submit", "reset"]
        assert (await wire.ask("prompts/list"))[1]["result"]["prompts"] == []
        begun = await wire.call("reset", task_index=3)
        assert text(begun) == "Count to 3." and data(begun)["task_index"] == 3
        assert (await wire.ask("prompts/get", name="task"))[1]["result"]["messages"][0]["content"][
            "text"
        ] == "Count to 3."
        for _ in range(3):
            added = await wire.call("increment_counter", count=1)
        assert text(added) == '{"success":true}' and data(added) == {"done": False, "reward": 0.0}
        assert text(await wire.call("get_counter_value")) == '{"count":3}'
        done = await wire.call("submit", answer="It is done.")
        assert text(done) == "The episode is over. The reward is 1."
        assert data(done) == {"done": True, "reward": 1.0, "terminated": True, "truncated": False, "items": []}
        late = await wire.call("increment_counter", count=1)
        assert late["result"]["isError"] and text(late) == "The episode is over. Call `reset` for a task first."
        assert text(await wire.call("reset", task_index=0)) == "Count to 0."
        assert server.sessions.counts["scored"] == 1 and len(server.sessions) == 1


@in_loop
async def test_an_address_that_names_a_task_begins_it_and_has_no_reset():
    async with serving("gym_llm/Counter-v0", COUNT) as (_, client):
        wire = client("?task_index=2")
        assert (await wire.shake_hands())["instructions"].endswith("with your answer.\n\nCount to 2.")
        assert await names(wire) == ["increment_counter", "get_counter_value", "submit"]
        assert (await wire.call("reset"))["result"]["isError"]  # a tool that there is not
        await wire.call("increment_counter", count=2)
        assert data(await wire.call("submit", answer="2"))["reward"] == 1.0
        assert text(await wire.call("submit", answer="2")) == "The episode is over."
        seeded = [(await client("?seed=7").shake_hands())["instructions"] for _ in range(2)]
        assert seeded[0] == seeded[1]


@in_loop
async def test_what_an_address_says_wrongly_of_the_task_is_told_and_leaves_no_session():
    async with serving("gym_llm/Counter-v0", COUNT) as (server, client):
        for query in ("task_index=x", "task_index=-1", "seed=1.5", f"seed={'9' * 30}", "task_index=%F0%9D%9F%8F"):
            assert code(await client(f"?{query}").ask("initialize")) == (400, -32602)
        assert code(await client("?task_index=4").ask("initialize")) == (200, -32602)
        assert len(server.sessions) == 0


@in_loop
async def test_a_user_who_asks_on_is_heard_and_the_episode_goes_on():
    async with serving("gym_llm/FollowUp-v0", TALK) as (_, client):
        wire = client("?task_index=0")
        await wire.shake_hands()
        asked = await wire.call("submit", answer="It is 9.")
        assert text(asked) == "And 2 more?" and data(asked)["done"] is False
        assert data(await wire.call("submit", answer=[message_item("11")]))["reward"] == 1.0


@in_loop
async def test_what_a_model_gets_wrong_is_a_result_that_says_so():
    async with serving("gym_llm/Counter-v0", COUNT) as (server, client):
        wire = client()
        await wire.shake_hands()
        for name, arguments in (("increment_counter", {"count": 1}), ("submit", {"answer": "x"}), ("what", {})):
            early = await wire.call(name, **arguments)
            assert early["result"]["isError"] and text(early) == "Call `reset` for a task first."
        for arguments in (
            {"task_index": 9},
            {"task_index": "x"},
            {"seed": -1},
            {"seed": True},
            {"what": 1},
            {"task": {}},
        ):
            wrong = await wire.call("reset", **arguments)
            assert wrong["result"]["isError"] and "first" not in text(wrong), arguments
        await wire.call("reset", task_index=1)
        for name, arguments in (("increment_counter", {"count": "x"}), ("increment_counter", {}), ("verify", {})):
            wrong = await wire.call(name, **arguments)
            assert wrong["result"]["isError"] and "error" in text(wrong)
        for answer in (None, 5, [5], [{"type": "function_call"}]):
            wrong = await wire.call("submit", answer=answer)
            assert wrong["result"]["isError"] and "done" not in json.dumps(wrong)
        await wire.call("increment_counter", count=1)
        assert data(await wire.call("submit", answer="x"))["reward"] == 1.0
        assert server.sessions.counts["masked"] == 0


@in_loop
async def test_a_session_is_its_clients_alone():
    async with serving(["gym_llm/Counter-v0", "gym_llm/FollowUp-v0"]) as (server, client):
        wire = client()
        await wire.shake_hands()
        begun = await wire.call("reset", seed=1)
        mine = wire.headers["Mcp-Session-Id"]
        other = client()
        for guess in (mine[:-1], mine.lower(), "", "x" * 5_000, "é".encode().decode("latin-1")):
            other.headers["Mcp-Session-Id"] = guess
            _, answer = await other.ask("prompts/get", name="task")
            assert "Count" not in json.dumps(answer) and ("error" in answer), guess
        elsewhere = Wire(wire.http, f"{server.url}/FollowUp-v0/mcp")
        elsewhere.headers["Mcp-Session-Id"] = mine
        assert code(await elsewhere.ask("tools/list")) == (404, -32600)
        below = Wire(wire.http, f"{server.url}/Counter-v0/mcp")
        below.headers["Mcp-Session-Id"] = mine
        task = (await below.ask("prompts/get", name="task"))[1]["result"]["messages"][-1]["content"]["text"]
        assert task in text(begun)
        # Another wire's session has no toolbox here, whatever its client called it.
        server.sessions.open(session_id="guess-me")
        other.headers["Mcp-Session-Id"] = "guess-me"
        assert code(await other.ask("tools/list")) == (404, -32600)


@in_loop
async def test_without_a_handshake_a_reset_gives_a_session():
    async with serving("gym_llm/Counter-v0", COUNT) as (server, client):
        wire = client()
        body, headers = stateless("server/discover")
        status, answer = await wire.post(body, **headers)
        assert (status, answer["error"]["code"]) == (400, -32022)  # with a handshake clients are given a session
        assert answer["error"]["data"]["supported"][-1] == "2025-11-25"
        body, headers = stateless("tools/list")
        listed = (await wire.post(body, **headers))[1]["result"]["tools"]
        assert [each["name"] for each in listed][-2:] == ["submit", "reset"]
        body, headers = stateless("tools/call", "get_counter_value")
        assert "no session yet" in text((await wire.post(body, **headers))[1])
        body, headers = stateless("tools/call", "reset", arguments={"task_index": 9})
        assert (await wire.post(body, **headers))[1]["result"]["isError"] and len(server.sessions) == 0
        body, headers = stateless("tools/call", "reset", arguments={"task_index": 2})
        session = data((await wire.post(body, **headers))[1])["session"]
        body, headers = stateless("tools/call", "increment_counter", arguments={"count": 2})
        await wire.post(body, **headers, x_nemo_gym_session_token=session)
        body, headers = stateless("tools/call", "submit", arguments={"answer": "2"})
        body["params"]["_meta"]["gym-llm/session"] = session
        assert data((await wire.post(body, **headers))[1])["reward"] == 1.0
        body, headers = stateless("server/discover")
        assert "result" in (await wire.post(body, **headers, x_nemo_gym_session_token=session))[1]
        assert code(await wire.post(body, **headers, x_nemo_gym_session_token="other")) == (404, -32600)
        pinned = client("?task_index=1")
        body, headers = stateless("tools/call", "reset", arguments={"task_index": 3})
        assert text((await pinned.post(body, **headers))[1]) == "Count to 1."


@in_loop
async def test_a_token_serves_a_client_with_a_handshake_too():
    async with serving("gym_llm/Counter-v0", COUNT) as (_, client):
        body, headers = stateless("tools/call", "reset", arguments={"task_index": 2})
        session = data((await client().post(body, **headers))[1])["session"]
        wire = client()
        wire.headers["X-NeMo-Gym-Session-Token"] = session
        await wire.shake_hands()
        assert "Mcp-Session-Id" not in wire.headers
        await wire.call("increment_counter", count=2)
        assert data(await wire.call("submit", answer="2"))["reward"] == 1.0


class Slow(VerifierEnv):
    """Its tool shows whether two of its calls are under way at once, and fails where it is told to."""

    under_way = most = torn_down = 0
    setup_seconds = 0.0

    async def setup(self, task: Any) -> None:
        await asyncio.sleep(Slow.setup_seconds)

    @tool
    async def look(self, seconds: float) -> str:
        """Look.

        Args:
            seconds: How long.
        """
        if seconds < 0:
            raise KeyError("seeds")
        Slow.under_way += 1
        Slow.most = max(Slow.most, Slow.under_way)
        await asyncio.sleep(seconds)
        Slow.under_way -= 1
        return "seen"

    @tool
    def submit(self) -> str:
        """Submit nothing."""
        return "not that one"

    def verify(self, task: Any, episode: Any) -> float:
        return float(sum(item.get("type") == "function_call_output" for item in episode.items))

    def teardown(self, task: Any, episode: Any) -> None:
        Slow.torn_down += 1


gym.register("test/McpSlow-v0", Slow, disable_env_checker=True)


@in_loop
async def test_calls_of_one_session_are_made_one_after_the_other():
    Slow.most = 0
    async with serving("test/McpSlow-v0", [row()]) as (_, client):
        wire, other = client("?task_index=0"), client("?task_index=0")
        await wire.shake_hands()
        await other.shake_hands()
        answers = await asyncio.gather(*[wire.call("look", number, seconds=0.02) for number in range(8)])
        assert [text(each) for each in answers] == ["seen"] * 8 and Slow.most == 1
        assert data(await wire.call("episode_submit", answer="x"))["reward"] == 8.0
        assert text(await other.call("submit")) == "not that one"
        assert data(await other.call("episode_submit", answer="x"))["reward"] == 1.0


@in_loop
async def test_a_client_that_vanishes_in_a_call_finds_its_episode_as_the_call_left_it():
    async with serving("test/McpSlow-v0", [row()]) as (_, client):
        wire = client()
        body, headers = stateless("tools/call", "reset")
        token = data((await wire.post(body, **headers))[1])["session"]
        body, headers = stateless("tools/call", "look", arguments={"seconds": 0.5})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await wire.post(body, **headers, x_nemo_gym_session_token=token)
        body, headers = stateless("tools/call", "episode_submit", arguments={"answer": "x"})
        assert data((await wire.post(body, **headers, x_nemo_gym_session_token=token))[1])["reward"] == 1.0


@in_loop
async def test_a_tool_that_fails_masks_the_episode_and_the_session_goes_on():
    async with serving("test/McpSlow-v0", [row()]) as (server, client):
        wire = client()
        await wire.shake_hands()
        await wire.call("reset")
        failed = await wire.call("look", seconds=-1)
        assert failed["result"]["isError"] and data(failed)["masked"] is True and "reward" not in data(failed)
        assert data(failed)["failure_kind"] == "verifier_error" and "seeds" not in json.dumps(failed)
        assert server.sessions.counts["masked"] == 1
        await wire.call("reset")
        assert data(await wire.call("episode_submit", answer="x"))["reward"] == 0.0


@in_loop
async def test_sessions_end_with_their_client_and_expire_without():
    Slow.torn_down = 0
    async with serving("test/McpSlow-v0", [row()], idle_seconds=0.4, capacity=2) as (server, client):
        wire, other = client("?seed=0"), client("?seed=0")
        await wire.shake_hands()
        await other.shake_hands()
        assert code(await client().ask("initialize")) == (503, -32603)
        assert (await wire.http.delete(wire.url, headers=wire.headers)).status == 204
        assert len(server.sessions) == 1 and Slow.torn_down == 1
        assert code(await wire.ask("tools/list")) == (404, -32600)
        await asyncio.sleep(1.0)
        assert len(server.sessions) == 0 and Slow.torn_down == 2
        assert code(await other.ask("tools/list")) == (404, -32600)


@in_loop
async def test_a_session_that_ends_during_a_call_leaves_no_environment_behind():
    Slow.torn_down = 0
    async with serving("test/McpSlow-v0", [row()]) as (server, client):
        wire = client()
        await wire.shake_hands()
        await wire.call("reset")
        looking = asyncio.create_task(wire.call("look", 1, seconds=0.3))
        resetting = asyncio.create_task(wire.ask("tools/call", 2, name="reset"))
        await asyncio.sleep(0.1)
        assert (await wire.http.delete(wire.url, headers=wire.headers)).status == 204
        assert (await looking)["error"]["code"] == -32800
        assert "error" in (await resetting)[1]
        await asyncio.sleep(0.1)
        assert len(server.sessions) == 0 and Slow.torn_down == 1


@in_loop
async def test_only_the_session_that_a_client_knows_ends():
    async with serving("gym_llm/Counter-v0", COUNT) as (server, client):
        wire = client()
        await wire.shake_hands()
        server.sessions.open(session_id="guess-me")
        both = {
            **wire.headers,
            "X-NeMo-Gym-Session-Token": wire.headers["Mcp-Session-Id"],
            "Mcp-Session-Id": "guess-me",
        }
        assert (await wire.http.delete(wire.url, headers=both)).status == 204
        assert server.sessions.get("guess-me") and len(server.sessions) == 1
        assert (await wire.http.delete(wire.url, headers=wire.headers)).status == 404


@in_loop
async def test_a_client_that_vanishes_in_its_handshake_leaves_no_session():
    Slow.torn_down, Slow.setup_seconds = 0, 0.5
    try:
        async with serving("test/McpSlow-v0", [row()]) as (server, client):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client("?task_index=0").shake_hands()
            with pytest.raises(TimeoutError):  # nor in a `reset` that would have told it of its session
                async with asyncio.timeout(0.2):
                    body, headers = stateless("tools/call", "reset")
                    await client().post(body, **headers)
            async with asyncio.timeout(5):
                while len(server.sessions) or Slow.torn_down < 2:
                    await asyncio.sleep(0.05)
    finally:
        Slow.setup_seconds = 0.0


@in_loop
async def test_the_reward_is_that_of_the_process():
    env = gym.make("gym_llm/FollowUp-v0", tasks=TALK)
    pairs = [(index, answer) for index in (0, 1) for answer in ("11", "It is 4.", "", "4 or 11", "é\u2028\x00")]
    async with serving("gym_llm/FollowUp-v0", TALK) as (_, client):
        for index, answer in pairs:
            env.reset(options={"task_index": index})
            done = False
            while not done:
                _, reward, terminated, truncated, _ = env.step([message_item(answer)])
                done = terminated or truncated
            wire = client(f"?task_index={index}")
            await wire.shake_hands()
            while not (result := data(await wire.call("submit", answer=answer)))["done"]:
                pass
            assert result["reward"] == reward


@in_loop
async def test_items_are_a_turn_with_several_calls():
    async with serving("gym_llm/Counter-v0", COUNT) as (_, client):
        wire = client("?task_index=3")
        await wire.shake_hands()
        calls = [function_call("increment_counter", {"count": n}, f"call_{n}") for n in (1, 2)]
        result = data(await wire.call("submit", answer=calls))
        assert [item["call_id"] for item in result["items"]] == ["call_1", "call_2"] and not result["done"]
        assert data(await wire.call("submit", answer="3"))["reward"] == 1.0


@in_loop
async def test_who_has_no_token_or_is_a_foreign_page_is_not_answered():
    async with serving("gym_llm/Counter-v0", COUNT, token="let-me-in-7!") as (_, client):
        wire = client()
        assert (await wire.ask("initialize"))[0] == 401
        wire.headers["Authorization"] = "Bearer let-me-in-7!"
        assert (await wire.shake_hands())["protocolVersion"] == "2025-11-25"
        assert (await wire.post({}, origin="https://evil.example"))[0] == 403
        async with wire.http.put(wire.url, headers=wire.headers) as answer:
            assert answer.status == 405


@in_loop
async def test_openapi_has_the_address():
    async with serving("gym_llm/Counter-v0", COUNT) as (server, client):
        answer = await client().http.get(f"{server.url}/openapi.json")
        assert "post" in (await answer.json())["paths"]["/mcp"]


@in_loop
async def test_openenvs_clients_ask_the_same_address():
    async with serving("gym_llm/Counter-v0", COUNT, protocols=None) as (_, client):
        wire = client("?task_index=2")
        assert (await wire.ask("ping"))[1]["result"] == {}
        created = (await wire.ask("openenv/session/create"))[1]["result"]["session_id"]
        assert "Mcp-Session-Id" not in wire.last.headers
        await wire.shake_hands("2025-03-26")
        assert "reset" not in await names(wire)
        await wire.call("increment_counter", count=2)
        assert data(await wire.call("submit", answer="2"))["reward"] == 1.0
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert len((await wire.post([ping, {**ping, "id": 2}]))[1]) == 2
        assert code(await wire.post(b"{")) == (400, -32700)
        wire.headers["Mcp-Session-Id"] = created  # has no toolbox of MCP's
        assert code(await wire.ask("tools/list")) == (404, -32600)
