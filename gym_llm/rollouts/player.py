"""The player of a run's episodes: its engine, with what its settings put in front of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from gym_llm.engines.engine import Engine
from gym_llm.rollouts.compaction import CompactingEngine
from gym_llm.rollouts.episode_budget import BudgetEngine
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.parsers import Parser
from gym_llm.wrappers.parse_response import ParsingWrapper


def player_of(engine: Engine, settings: RolloutSettings, make_env: Callable[[], gym.Env[Any, Any]]) -> Engine:
    """Return the engine that plays: the settings' agent, compaction, budgets, or the engine itself.

    What parses the model's text in front of an environment does so in front of the agent, who has to see calls as such.

    Args:
        engine: The model's, started and closed by its owner.
        settings: The run's.
        make_env: One of the run's environments, with its wrappers.

    Returns:
        The player. If it is not the engine, the caller starts and closes it.

    Raises:
        UsageError: If dollars are limited, and the model has no price; or if the engine cannot be compacted for.
    """
    if settings.budgets is not None:
        engine = BudgetEngine(engine, settings)
    if settings.compact is not None:
        engine = CompactingEngine(engine, settings)
    if settings.agent is None:
        return engine
    from gym_llm.agents import AgentEngine  # with its servers, which nobody else needs

    return AgentEngine(
        agent=settings.agent,
        engine=engine,
        agent_timeout=settings.agent_timeout,
        agent_in=settings.agent_in,
        agent_image=settings.agent_image,
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
