"""Every scripted agent, in every dialect, against our own capture server; and the same against OpenEnv's."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import aiohttp
import pytest

from .apis import APIS
from .engine import LoggedEngine
from .scripts import AGENTS
from .servers import started
from .suite import play_agent, play_all, summary

pytestmark = pytest.mark.xdist_group("conformance_agents")  # the engine is started once


@pytest.fixture(scope="module")
def playing():
    """Plays an agent by name against one server of ours, on one event loop."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def start():
            engine = LoggedEngine()
            server = await stack.enter_async_context(started("gym_llm", engine))
            http = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)))
            return lambda agent, api: play_agent(http, server, AGENTS[agent], APIS[api], engine.log.fetch)

        play = runner.run(start())
        yield lambda agent, api: runner.run(play(agent, api))
        runner.run(stack.aclose())


def plays():
    """Every agent in one dialect, and every sixth in all three; the others in the other two at night."""
    first, *_ = APIS
    for number, agent in enumerate(AGENTS):
        for api in APIS:
            marks = [] if api == first or number % 6 == 0 else [pytest.mark.nightly]
            yield pytest.param(agent, api, marks=marks, id=f"{agent}-{api}")


@pytest.mark.parametrize(("agent", "api"), list(plays()))
def test_what_an_agent_had_sampled_is_captured(playing, agent, api):
    outcome = playing(agent, api).outcome
    assert [*outcome.problems, *outcome.branch_problems] == []
    assert outcome.score == 1.0 and outcome.calls and outcome.tokens


def test_there_are_thirty_agents_and_more():
    assert len(AGENTS) >= 30 and all(agent.about for agent in AGENTS.values())


_OF_OPENENV = ("tool_loop", "chat", "compaction", "fork", "retry", "best_of_n", "streaming_reasoning", "subagent")


@pytest.mark.nightly
def test_openenvs_server_has_every_token_and_twice_those_that_two_paths_share():
    async def play():
        engine = LoggedEngine()
        async with started("openenv", engine) as server:
            agents = [AGENTS[name] for name in _OF_OPENENV]
            return [result async for result in play_all(server, agents, list(APIS.values()), engine.log.fetch)]

    results = asyncio.run(play())
    figures = summary(results)
    assert figures["played"] == 3 * len(_OF_OPENENV) and figures["tokens"] > 1000
    assert figures["ids"] == figures["masks"] == figures["log_probs"] == 1.0
    assert {one.agent for one in results if not one.outcome.exact} == {"fork"}
    assert sum(one.outcome.extra for one in results if one.agent == "fork") == figures["extra_tokens"] > 0
