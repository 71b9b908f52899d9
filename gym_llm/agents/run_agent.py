"""Running an agent once: whatever kind of function it is."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from gym_llm.agents.agent_episode import Agent, AgentEpisode
from gym_llm.agents.sync import in_thread


async def run_agent(agent: Agent, episode: AgentEpisode) -> Any:
    """Have an agent play; what it returns.

    Raises:
        Exception: What it raises.
    """
    if _is_async(agent):
        return await agent(episode)
    result = await in_thread(agent, episode)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("The agent is no async function, but returns what has to be awaited: make it `async def`.")
    return result


def _is_async(agent: Agent) -> bool:
    while isinstance(agent, functools.partial):
        agent = agent.func
    return inspect.iscoroutinefunction(agent) or inspect.iscoroutinefunction(getattr(agent, "__call__", None))  # noqa: B004
