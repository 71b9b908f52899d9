"""An agent as a policy: it plays beside the environment, and its model's tokens are kept."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium as gym
import pytest
from agent_playing import FOLLOW_UP, WEATHER, Says, counts, follows, play
from openai import AsyncOpenAI
from testing import function_call, message_item, response, row

from gym_llm import VerifierEnv, collect
from gym_llm.agents import AgentEpisode, EpisodeOver
from gym_llm.engines import Engine


@pytest.mark.parametrize("env_id", [WEATHER, FOLLOW_UP, "gym_llm/Arithmetic-v0"])
def test_an_agent_that_does_what_the_model_says_gives_the_same_episodes_as_the_model(env_id: str) -> None:
    how: dict[str, Any] = {"limit": 5, "repeats": 2, "seed": 3, "progress": False}
    plain, agents = collect(env_id, **how), collect(env_id, agent=follows, **how)
    for one, other in zip(plain, agents, strict=True):
        assert [one[name] for name in ("rollout_id", "reward", "outcome")] == [  # type: ignore[literal-required]
            other[name]  # type: ignore[literal-required]
            for name in ("rollout_id", "reward", "outcome")
        ]
        assert [text_of(item) for item in one["response"]["output"]] == [
            text_of(item) for item in other["response"]["output"]
        ]
        assert one["response"]["usage"] == other["response"]["usage"]
        segments = list(zip(one["trajectory"] or [], other["trajectory"] or [], strict=True))
        assert segments
        for segment, branch in segments:
            assert segment["input_ids"] == branch["input_ids"] and segment["loss_mask"] == branch["loss_mask"]
            assert branch["logprobs"] == pytest.approx(segment["logprobs"], abs=1e-4)  # batches are rounded otherwise
        calls = sum(item["type"] != "function_call_output" and "role" in item for item in other["response"]["output"])
        assert calls and other["info"]["agent"]["branches"] == len(segments)
        assert {**other["info"], "agent": None} == {**one["info"], "agent": None}


def text_of(item: Any) -> Any:
    return {name: value for name, value in item.items() if name not in ("id", "call_id", "status") and "_" not in name}


def test_two_hundred_episodes_at_once_keep_their_calls_apart() -> None:
    async def agent(episode: AgentEpisode) -> str:
        number = episode.prompt.split()[-1]
        said = await asyncio.gather(*(episode.call_tool("left", {"number": int(number)}) for _ in range(2)))
        await episode.respond(episode.request)
        return f"{said[0]} of {number}"

    tasks = [row(f"Go to {number}") for number in range(200)]
    records = collect("agent_tests/Two-v0", Says(), agent=agent, tasks=tasks, concurrency=200, progress=False)
    assert [record["info"]["answer"] for record in records] == [f"went left {n} of {n}" for n in range(200)]
    assert {record["reward"] for record in records} == {2.0}
    assert {len(record["trajectory"] or ()) for record in records} == {1}


def test_calls_made_at_once_are_one_turn_and_others_are_not() -> None:
    async def together(episode: AgentEpisode) -> str:
        said = await asyncio.gather(episode.call_tool("left", '{"number": 3}'), episode.call_tool("right", {}))
        return " and ".join(said)

    async def apart(episode: AgentEpisode) -> str:
        return " and ".join([await episode.call_tool("left", {"number": 3}), await episode.call_tool("right", {})])

    records = [play(together), play(apart)]
    assert [record["info"]["answer"] for record in records] == ["went left 3 and went right"] * 2
    assert [(record["reward"], record["info"]["turn"]) for record in records] == [(2.0, 2), (1.0, 3)]


def test_the_models_calls_keep_their_ids_and_are_waited_for_together() -> None:
    class Calls(Engine):
        model = "calls"

        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return response(function_call("left", {"number": 1}, "call_a"), function_call("right", {}, "call_b"))

    async def agent(episode: AgentEpisode) -> str:
        calls = (await episode.respond(episode.request))["output"]

        async def one(call: Any, delay: float) -> str:
            await asyncio.sleep(delay)  # as over HTTP: not in the same moment
            return await episode.call_tool(call["name"], f" {call['arguments']}")

        return ", ".join(await asyncio.gather(one(calls[1], 0.0), one(calls[0], 0.004)))

    record = play(agent, Calls())
    assert record["info"]["answer"] == "went right, went left 1" and record["info"]["turn"] == 2
    ids = [item["call_id"] for item in record["response"]["output"] if item["type"] == "function_call"]
    assert ids == ["call_b", "call_a"]


def test_calls_of_one_id_have_an_output_each() -> None:
    class Calls(Engine):
        model = "calls"

        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return response(function_call("left", {"number": 1}, "same"), function_call("left", {"number": 2}, "same"))

    async def agent(episode: AgentEpisode) -> str:
        await episode.respond(episode.request)
        return ", ".join(await asyncio.gather(*[episode.call_tool("left", {"number": n}) for n in (1, 2)]))

    assert play(agent, Calls())["info"]["answer"] == "went left 1, went left 2"


def test_what_tools_object_to_is_told_to_the_agent() -> None:
    async def agent(episode: AgentEpisode) -> str:
        return await episode.call_tool("up", {}) + await episode.call_tool("left", "no JSON {")

    record = play(agent)
    assert "no tool named 'up'" in record["info"]["answer"] and record["info"]["tool_errors"] == 2


def test_submit_returns_what_the_user_says_next() -> None:
    heard: list[Any] = []

    async def agent(episode: AgentEpisode) -> None:
        heard.append(episode.prompt)
        heard.append(await episode.submit("first"))
        heard.append(episode.request["input"][-1]["content"])
        heard.append(await episode.submit([message_item("It is 9.")]))
        with pytest.raises(EpisodeOver):
            await episode.submit("too late")
        heard.append(episode.is_over)

    task = row("1+1?", follow_ups=["And 4+5?"], expected_answer="9")
    record = play(agent, env_id=FOLLOW_UP, tasks=[task])
    assert heard == ["1+1?", "And 4+5?", "And 4+5?", None, True] and record["reward"] == 1.0


def test_an_agent_that_has_ended_is_started_again_when_the_user_asks_on() -> None:
    prompts: list[str] = []
    waiting: list[Any] = []

    def returns(episode: Any) -> str:  # in a thread
        prompts.append(episode.prompt)
        return f"{episode.respond(episode.request)['model']}: {9 * episode.prompt.count('4+5')}"

    async def submits(episode: AgentEpisode) -> None:
        prompts.append(episode.prompt)
        waiting.append(asyncio.ensure_future(episode.submit("9" if "4+5" in episode.prompt else "2")))
        await asyncio.sleep(0)

    for agent in (returns, submits):
        prompts.clear()
        task = row("1+1?", follow_ups=["And 4+5?"], expected_answer="9")
        record = play(agent, env_id=FOLLOW_UP, tasks=[task])
        assert record["reward"] == 1.0, record["error"]
        assert prompts[0] == "1+1?" and prompts[1].startswith("User: 1+1?\n\nAssistant: ")


def test_an_agent_that_says_nothing_has_said_what_its_model_said_last() -> None:
    async def asks(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)

    async def is_silent(episode: AgentEpisode) -> None:
        pass

    assert play(asks)["info"]["answer"] == "four"
    assert play(is_silent)["info"]["answer"] == "" and play(is_silent)["outcome"] == "scored"


def test_the_model_is_asked_over_http_too_and_each_token_is_kept() -> None:
    async def agent(episode: AgentEpisode) -> str:
        client = AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0)
        messages: list[Any] = [{"role": "user", "content": episode.prompt}]
        async with client:
            for _ in range(2):
                chat = await client.chat.completions.create(model=episode.model, messages=messages)
                messages += [chat.choices[0].message, {"role": "user", "content": "Sure?"}]
        return str(chat.choices[0].message.content)

    engine = Says()
    record = play(agent, engine, sampling={"temperature": 0.25})
    assert record["info"]["answer"] == "four" and counts(record) == (2, 2)
    assert [request["temperature"] for request in engine.requests] == [0.25, 0.25]
    assert [sum(branch["loss_mask"]) for branch in record["trajectory"]] == [1, 1]


def test_tokens_come_from_engines_only() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-1.0]}

    async def agent(episode: AgentEpisode) -> Any:
        return [{**message_item("mine"), **tokens}]

    record = play(agent)
    assert record["info"]["answer"] == "mine" and record["trajectory"] is None
    assert not any(name in record["response"]["output"][0] for name in tokens)


def test_the_rewards_of_steps_stand_where_the_model_led_to_them() -> None:
    class Pays(VerifierEnv):
        """Pays for each answer."""

        def user_turn(self, task: Any, episode: Any) -> str | None:
            episode.step_reward = float(episode.turn)
            return "Go on." if episode.turn < 3 else None

        def verify(self, task: Any, episode: Any) -> float:
            return 10.0

    gym.register("agent_tests/Pays-v0", Pays)
    try:
        how: dict[str, Any] = {"limit": 1, "progress": False, "engine_options": {"history": "append"}, "tasks": [row()]}
        plain = collect("agent_tests/Pays-v0", "pocket", **how)[0]
        record = collect("agent_tests/Pays-v0", "pocket", agent=follows, **how)[0]
    finally:
        del gym.registry["agent_tests/Pays-v0"]
    assert record["reward"] == plain["reward"] and record["turn_rewards"] == plain["turn_rewards"]
    assert sum(reward > 0 for reward in record["turn_rewards"]) > 1
    one, other = plain["trajectory"], record["trajectory"]
    assert one and other and [part["rewards"] for part in one] == [part["rewards"] for part in other]
