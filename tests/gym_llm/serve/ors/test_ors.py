"""The Open Reward Standard over HTTP: sessions, streams of calls that can be resumed, refusals, our own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from testing import function_call, in_loop, message, row

from gym_llm import BaseTask, VerifierEnv, tool
from gym_llm.serve import EnvServer
from gym_llm.serve.ors.call_streams import chunks
from gym_llm.serve.ors.ors_messages import messages, prompt
from gym_llm.utils.json_codec import dumps

Answer = tuple[int, Any]
WEATHER = str(Path(__file__).parents[4] / "envs" / "weather" / "data" / "example.jsonl")
MINE = {"X-Session-ID": "mine"}


class Slow(VerifierEnv):
    """A tool that waits, and one that fails."""

    Task = BaseTask
    calls = 0

    def generate(self, rng: Any) -> Any:
        return row()

    @tool
    async def wait(self, state: Any) -> str:
        """Wait."""
        type(self).calls += 1
        await asyncio.sleep(0.3)
        return " \u2003waited" + " " * 9_000

    @tool
    def fail(self, state: Any) -> str:
        """Fail."""
        raise RuntimeError("the author's secret")

    def verify(self, task: BaseTask, episode: Any) -> float:
        return 1.0


@asynccontextmanager
async def serving(env_id: Any = "gym_llm/Weather-v0", **options: Any) -> AsyncGenerator[aiohttp.ClientSession, None]:
    options = {"protocols": ["ors"], "port": 0, **options}
    async with EnvServer(env_id, **options) as server, aiohttp.ClientSession(server.url) as client:
        yield client


async def get(client: aiohttp.ClientSession, path: str, headers: dict[str, str] = MINE) -> Answer:
    async with client.get(path, headers=headers) as answer:
        return answer.status, await answer.json()


async def post(client: aiohttp.ClientSession, path: str, body: Any = None, headers: dict[str, str] = MINE) -> Answer:
    async with client.post(path, json=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def call(client: aiohttp.ClientSession, name: str, given: Any, **more: Any) -> list[tuple[str, str]]:
    """The events of a call."""
    async with client.post("/call", json={"name": name, "input": given, **more}, headers=MINE) as answer:
        assert answer.status == 200, await answer.text()
        return events_in(await answer.text())


def events_in(text: str) -> list[tuple[str, str]]:
    blocks = [block.split("\n") for block in text.split("\n\n") if block and not block.startswith(":")]
    return [(first.removeprefix("event: "), second.removeprefix("data: ")) for first, second in blocks]


def result_of(events: list[tuple[str, str]]) -> Any:
    assert events[0][0] == "task_id" and events[-1][0] == "end"
    return json.loads("".join(data.lstrip() for _, data in events[1:]))  # as openreward's client reads a chunk


@in_loop
async def test_an_episode_from_its_task_to_its_reward() -> None:
    async with serving(tasks=WEATHER) as client:
        assert await get(client, "/list_environments") == (200, ["Weather-v0"])
        async with client.post("/create_session", json={}) as answer:
            events = events_in(await answer.text())
        assert [name for name, _ in events] == ["task_id", "end"] and len(events[0][1]) > 20
        assert await post(client, "/create", {"split": "train", "index": 0}) == (200, {"sid": "mine"})
        for prefix in ("", "/Weather-v0"):
            _, listed = await get(client, f"{prefix}/task_tools")
            assert [each["name"] for each in listed["tools"]] == ["get_weather"]
            assert listed["terminal_tool"]["name"] == "submit" and listed["terminal_tool"]["arg"] == "answer"
        _, said = await get(client, "/prompt")
        assert said[0]["type"] == "text" and (await get(client, "/messages"))[1][0] == {"role": "user", "blocks": said}
        result = result_of(await call(client, "get_weather", {"city": "Paris"}))
        assert result["ok"] and "Paris" in result["output"]["blocks"][0]["text"] and not result["output"]["finished"]
        assert result_of(await call(client, "submit", {"answer": 5}))["reason"] == "input_validation"
        result = result_of(await call(client, "submit", {"answer": "It is cold."}))["output"]
        assert result["finished"] and result["reward"] == 1.0 and result["metadata"]["truncated"] is False
        assert result_of(await call(client, "get_weather", {}))["reason"] == "episode_finished"
        assert (await post(client, "/ping"))[0] == 200
        assert (await post(client, "/delete"))[0] == (await post(client, "/delete_session"))[0] == 200
        assert (await post(client, "/ping"))[0] == 404


@in_loop
async def test_our_own_client_gets_the_environments_own_rewards() -> None:
    own = gym.make("gym_llm/Weather-v0").unwrapped
    async with EnvServer("gym_llm/Weather-v0", protocols=["ors"], port=0) as server:

        def play(index: int) -> list[list[float]]:
            theirs = gym.make("gym_llm/OpenRewardStandard-v0", url=server.url, index=index).unwrapped
            found = []
            for env, options in ((own, {"task_index": index}), (theirs, None)):
                env.reset(seed=0, options=options)
                turns = [function_call("get_weather", {"city": "Rome"}), function_call("nothing"), message("Cold.")]
                found.append([env.step([turn] if isinstance(turn, dict) else turn)[1] for turn in turns])
            theirs.close()
            return found

        for index in range(3):
            ours, over_http = await asyncio.to_thread(play, index)
            assert ours == over_http
    own.close()


@in_loop
async def test_a_call_is_made_once_though_its_client_comes_back() -> None:
    Slow.calls = 0
    async with serving(EnvSpec("mine/Slow-v0", entry_point=Slow)) as client:
        await post(client, "/create", {"split": "train", "index": 0})
        async with client.post("/call", json={"name": "wait", "input": {}}, headers=MINE) as answer:
            task_id = (await answer.content.readuntil(b"\n\n")).decode().rpartition("data: ")[2].strip()
        again = result_of(await call(client, "wait", {}, task_id=task_id))
        assert again == result_of(await call(client, "wait", {}, task_id=task_id))
        assert again["output"]["blocks"][0]["text"] == " \u2003waited" + " " * 9_000
        assert Slow.calls == 1
        assert await call(client, "wait", {}, task_id="unknown") == [("error", "unknown task_id")]


@in_loop
async def test_a_failed_episode_is_an_error_without_the_authors_secret() -> None:
    async with serving(EnvSpec("mine/Slow-v0", entry_point=Slow)) as client:
        await post(client, "/create", {"split": "train", "index": 0})
        events = await call(client, "fail", {})
        assert events[-1][0] == "error" and len(events) == 2
        assert result_of(await call(client, "submit", {"answer": "x"}))["reason"] == "episode_finished"


@in_loop
async def test_calls_at_once_are_made_one_after_the_other_until_the_episode_is_over() -> None:
    async with serving(EnvSpec("mine/Slow-v0", entry_point=Slow)) as client:
        await post(client, "/create", {"split": "train", "index": 0})
        turns = [("wait", {}), ("submit", {"answer": "done"}), ("wait", {})]
        first, answer, late = map(result_of, await asyncio.gather(*(call(client, *turn) for turn in turns)))
        assert first["ok"] and answer["output"]["reward"] == 1.0
        assert late == {"ok": False, "error": "The episode is over.", "reason": "episode_finished"}


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/create", {}, 400, "Provide either"),
        ("/create", {"split": "nix", "index": 0}, 400, "no split 'nix'"),
        ("/create", {"split": "train", "index": True}, 400, "Provide either"),
        ("/create", {"env_name": "Nix-v0", "split": "train", "index": 0}, 404, "Nix-v0"),
        ("/create", {"env_name": ["a"], "split": "train", "index": 0}, 404, "Unknown environment"),
        ("/create", {"task_spec": {"responses_create_params": 5}}, 400, ""),
        ("/create", [], 422, "JSON object"),
        ("/call", {"name": "get_weather", "input": {}}, 404, "does not exist"),
        ("/ping", None, 404, "does not exist"),
    ],
)
@in_loop
async def test_what_is_wrong_is_refused(path: str, body: Any, status: int, said: str) -> None:
    async with serving() as client:
        found = await post(client, path, body)
        assert found[0] == status and said in found[1]["detail"]


@in_loop
async def test_sessions_are_their_clients_own() -> None:
    async with serving(protocols=["openenv", "ors"]) as client:
        task = {"split": "train", "index": 0}
        assert (await post(client, "/create", task, {}))[0] == 400
        assert (await post(client, "/create", task))[0] == 200
        assert (await post(client, "/create", task))[0] == 400  # the id is taken
        for body in ({"name": 5, "input": {}}, {"name": "get_weather"}, {"name": "x", "input": []}):
            assert (await post(client, "/call", body))[0] == 422
        _, opened = await post(client, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"})
        other = {"X-Session-ID": opened["result"]["session_id"]}
        assert (await get(client, "/prompt", other))[0] == 404
        assert (await post(client, "/delete", None, other))[0] == 200
        assert (await get(client, f"/state?session_id={other['X-Session-ID']}"))[0] == 200  # it was not ended


@in_loop
async def test_a_row_and_a_listed_task_can_be_played() -> None:
    own_row = json.loads(Path(WEATHER).read_text().partition("\n")[0])
    async with serving() as client:
        _, shown = await post(client, "/task", {"split": "train", "index": 3})
        assert shown["env_name"] == "Weather-v0"
        assert (await post(client, "/create", {"task_spec": shown["task"], "env_name": "weather-v0"}))[0] == 200
        assert (await get(client, "/prompt"))[1][0]["text"] == shown["task"]["request"]["input"][-1]["content"]
        other = {"X-Session-ID": "other"}
        assert (await post(client, "/create", {"task_spec": own_row}, other))[0] == 200
        assert (await get(client, "/prompt", other))[1][0]["text"] == "What is the weather in Paris?"


def test_prompts_have_roles_calls_and_pictures() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    items: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}, picture]},
        {"type": "function_call", "call_id": "c", "name": "see", "arguments": '{"x": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "seen"},
        {"type": "reasoning", "summary": []},
    ]
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    found = messages(items)
    assert [each["role"] for each in found] == ["system", "user", "assistant", "user"]
    assert found[1]["blocks"] == [{"type": "text", "text": "Look."}, image]
    assert found[2]["blocks"][0]["input"] == {"x": 1} and found[3]["blocks"][0]["blocks"][0]["text"] == "seen"
    assert prompt(items[1:2]) == found[1]["blocks"]
    flat = [block.get("text") for block in prompt(items)]
    assert flat[:4] == ["[system]", "Be brief.", "[user]", "Look."]
    assert '[tool_call see] {"x":1}' in flat and flat[-2:] == ["[tool_result]", "seen"]


def test_chunks_survive_a_client_that_strips_them() -> None:
    for text in (" " * 20_000, "\u2003x" * 5_000, "a\u00a0" * 9_000, "\U0001f600 " * 5_000, ""):
        line = dumps({"text": text})[:-1].decode()
        pieces = list(chunks(line))
        assert all(len(piece) <= 4_096 + 5 for piece in pieces)
        assert json.loads("".join(piece.lstrip() for piece in pieces)) == {"text": text}
