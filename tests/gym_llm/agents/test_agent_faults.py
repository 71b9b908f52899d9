"""Faults of agents, and of their model's engine, are their own episode's alone; its end is the agent's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from agent_playing import Says, counts, play
from openai import AsyncOpenAI
from testing import message_item, row

import gym_llm
from gym_llm import collect
from gym_llm.agents import AgentEpisode, EpisodeOver
from gym_llm.engines.engine_response import overflow_response
from gym_llm.errors import EngineError


def test_an_agent_that_raises_masks_its_episode_and_says_where() -> None:
    async def agent(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)
        raise KeyError("lost")

    record = play(agent)
    assert (record["outcome"], record["failure_kind"], record["error_phase"]) == ("masked", "agent_run_error", "engine")
    assert "KeyError: 'lost'" in record["error"] and "in agent" in record["traceback"]
    assert [branch["loss_mask"] for branch in record["trajectory"]] == [[0, 1]]
    assert counts(record) == (1, 1)


@pytest.mark.parametrize("wrong", [3, {"no": "answer"}, [message_item("x") | {"role": "user"}], [3]])
def test_an_answer_that_is_none_masks_the_episode(wrong: Any) -> None:
    async def agent(episode: AgentEpisode) -> Any:
        return wrong

    assert play(agent)["failure_kind"] == "agent_run_error"


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_an_agent_that_ends_itself_oddly_costs_no_other_episode(error: BaseException) -> None:
    async def agent(episode: AgentEpisode) -> str:
        if episode.prompt == "odd":
            raise error
        return "fine"

    tasks = [row("odd"), row("even")]
    with pytest.warns(UserWarning, match="1 of 2 episodes is masked"):
        odd, even = collect("agent_tests/Two-v0", Says(), agent=agent, tasks=tasks, progress=False)
    assert odd["outcome"] == "masked" and even["info"]["answer"] == "fine"


def test_an_agent_that_takes_too_long_masks_its_episode() -> None:
    async def agent(episode: AgentEpisode) -> None:
        await episode.call_tool("right", {})
        await asyncio.sleep(60)

    start = time.monotonic()
    record = play(agent, agent_timeout=0.2)
    assert record["failure_kind"] == "agent_timeout" and "0.2 seconds" in record["error"]
    assert record["info"]["turn"] == 1 and time.monotonic() - start < 10


DOWN = EngineError("The server is down.", failure_kind="provider_quota_exhausted")


def test_a_failure_of_the_models_engine_keeps_its_kind_whatever_the_agent_makes_of_it() -> None:
    async def falls(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)

    async def wraps(episode: AgentEpisode) -> None:
        async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0) as client:
            await client.responses.create(model=episode.model, input=episode.prompt)

    async def swallows(episode: AgentEpisode) -> str:
        try:
            await episode.respond(episode.request)
        except EngineError:
            pass
        return "I do not know."

    async def retries(episode: AgentEpisode) -> str:
        await swallows(episode)
        return (await episode.respond(episode.request))["output"][0]["content"][0]["text"]

    for agent in (falls, wraps, swallows):
        record = play(agent, Says(fails=[DOWN]), retries=0)
        assert record["failure_kind"] == "provider_quota_exhausted", record["error"]
        assert "The server is down." in record["error"]
    assert play(retries, Says(fails=[DOWN]))["info"]["answer"] == "four"
    again = play(falls, Says(fails=[DOWN]), retries=1)
    assert again["outcome"] == "scored" and again["attempts"] == 2


def test_a_conversation_longer_than_the_context_cuts_the_episode_short() -> None:
    class Full(Says):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return overflow_response(self.model, 9)

    async def agent(episode: AgentEpisode) -> None:
        async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0) as client:
            await client.responses.create(model=episode.model, input=episode.prompt)

    assert play(agent, Full())["outcome"] == "truncated"


def test_the_end_of_the_episode_ends_the_agent() -> None:
    ends: list[str] = []

    async def goes_on(episode: AgentEpisode) -> None:
        try:
            while True:
                await episode.call_tool("right", {})
        except EpisodeOver:
            ends.append("over")
            with pytest.raises(Exception, match="ended"):
                await episode.respond(episode.request)
            ends.append("refused")
            raise

    async def ignores(episode: AgentEpisode) -> None:
        try:
            await asyncio.gather(episode.submit("done"), asyncio.sleep(60))
        finally:
            ends.append("cancelled")

    record = play(goes_on)
    assert record["outcome"] == "truncated" and record["info"]["turn"] == 4 and ends == ["over", "refused"]
    ends.clear()
    start = time.monotonic()
    assert play(ignores)["info"]["answer"] == "done"
    assert ends == ["cancelled"] and time.monotonic() - start < 9


def test_what_an_agent_asks_after_the_end_is_not_trained_on() -> None:
    async def remembers(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)
        await episode.submit("done")
        await episode.respond({"input": [{"role": "user", "content": "What have you learned?"}]})

    record = play(remembers)
    assert counts(record) == (1, 1) and len(record["trajectory"]) == 1


def test_what_an_agent_is_told_after_the_end_is_not_trained_on() -> None:
    class Slow(Says):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            await asyncio.sleep(0.0 if len(request["input"]) == 1 else 0.3)
            return await super().respond(request)

    async def hurries(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)
        question = {"role": "user", "content": "Sure?"}
        await asyncio.gather(episode.respond({"input": [question] * 2}), episode.submit("done"))

    record = play(hurries, Slow())
    assert [branch["input_ids"] for branch in record["trajectory"]] == [[0, 7]]


def test_a_run_that_is_cancelled_ends_its_agents() -> None:
    ends: list[str] = []

    async def agent(episode: AgentEpisode) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append(episode.prompt)

    async def main() -> None:
        rollouts = gym_llm.rollout("agent_tests/Two-v0", Says(), agent=agent, tasks=[row("a"), row("b")])
        task = asyncio.ensure_future(anext(rollouts))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await rollouts.aclose()

    asyncio.run(main())
    assert sorted(ends) == ["a", "b"]
