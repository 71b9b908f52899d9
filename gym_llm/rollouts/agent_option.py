"""The agent that a run's settings name, in front of its engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from gym_llm.engines.engine import Engine
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.parsers import Parser
from gym_llm.wrappers.parse_response import ParsingWrapper

if TYPE_CHECKING:
    from gym_llm.agents import AgentEngine


def agents_of(
    engine: Engine, settings: RolloutSettings, make_env: Callable[[], gym.Env[Any, Any]]
) -> AgentEngine | None:
    """Return the engine that runs the settings' agent; None without an agent.

    What parses the model's text in front of an environment does so in front of the agent, who has to see calls as such.

    Args:
        engine: The model's, started and closed by its owner.
        settings: The run's.
        make_env: One of the run's environments, with its wrappers.
    """
    if settings.agent is None:
        return None
    from gym_llm.agents import AgentEngine  # with its servers, which nobody else needs

    return AgentEngine(
        agent=settings.agent,
        engine=engine,
        agent_timeout=settings.agent_timeout,
        sampling=settings.sampling,
        parsers=parsers_of(make_env()),
        started=True,
    )


def parsers_of(env: gym.Env[Any, Any]) -> list[Parser]:
    """The parsers of an environment's wrappers, in the order in which they see an action."""
    parsers = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, ParsingWrapper):
            parsers.append(env.parser)
        env = env.env
    return parsers
