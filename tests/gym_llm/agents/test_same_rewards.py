"""The same answers get the same rewards, whoever gives them: an engine, or an agent that asks it over HTTP."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from testing import function_call, message_item, response

from gym_llm import collect
from gym_llm.agents import AgentEpisode, EpisodeOver
from gym_llm.engines import Engine

CITIES = ("Oslo", "Rome", "Lima", "Cairo")


class Answers(Engine):
    """Says the n-th answer in the n-th task's episode; calls come first, in a turn of their own."""

    model = "answers"

    def __init__(self, answer: Callable[[random.Random], Any]) -> None:
        self.answer = answer

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        items = self.answer(random.Random(episode_id.partition("~")[0]))
        if any(item.get("type") == "function_call_output" for item in request["input"]):
            items = [item for item in items if item["type"] == "message"] or [message_item("done")]
        return response(*items)


def said(rng: random.Random) -> Any:
    return [
        message_item(rng.choice(["", "4", str(rng.randint(-99, 99)), "\\boxed{7}", "The answer is 12.", "<think>"]))
    ]


def looked_up(rng: random.Random) -> Any:
    arguments = rng.choice([{"city": rng.choice(CITIES)}, {"town": "Oslo"}, {}, "no JSON", {"city": 3}])
    return [function_call(rng.choice(["get_weather", "get_weather", "none"]), arguments), message_item("It is cold.")]


async def loop(episode: AgentEpisode) -> Any:
    """Asks over HTTP and makes the calls that the model wants, as a client of the Responses API does."""
    items: list[Any] = list(episode.request["input"])
    headers = {"Authorization": f"Bearer {episode.api_key}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        while True:
            async with http.post(f"{episode.base_url}/responses", json={"input": items}) as answer:
                output = (await answer.json())["output"]
            calls = [item for item in output if item["type"] == "function_call"]
            if not calls:
                return output
            for call in calls:
                result = await episode.call_tool(call["name"], call["arguments"])
                items += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": result}]


@pytest.mark.parametrize(("env_id", "answer"), [("gym_llm/Arithmetic-v0", said), ("gym_llm/Weather-v0", looked_up)])
def test_two_hundred_answers_get_the_same_rewards_by_an_agent_over_http(env_id: str, answer: Any) -> None:
    how: dict[str, Any] = {"limit": 200, "progress": False}
    plain, agents = collect(env_id, Answers(answer), **how), collect(env_id, Answers(answer), agent=loop, **how)
    assert [record["error"] for record in agents] == [None] * 200
    assert [record["reward"] for record in plain] == [record["reward"] for record in agents]
    assert [record["info"]["tool_errors"] for record in plain] == [r["info"]["tool_errors"] for r in agents]
    if answer is looked_up:
        assert sum(record["info"]["tool_errors"] for record in agents) > 50


def test_where_calls_themselves_are_graded_the_agents_call_ends_its_episode() -> None:
    ends: list[str] = []

    async def agent(episode: AgentEpisode) -> None:
        tool = episode.tools[0]
        with pytest.raises(EpisodeOver):
            await episode.call_tool(tool["name"], {})
        ends.append(tool["name"])

    (record,) = collect("gym_llm/SingleStepToolUse-v0", "constant:x", agent=agent, limit=1, progress=False)
    assert record["outcome"] == "scored" and len(ends) == 1
    assert [item["type"] for item in record["response"]["output"]] == ["function_call"]
