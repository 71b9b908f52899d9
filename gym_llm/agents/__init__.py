"""Agents as policies: programs and functions that play episodes with a model behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gym_llm.agents.agent_episode import Agent, AgentEpisode
from gym_llm.agents.agent_program import Program
from gym_llm.agents.agent_specs import agent_name, parse_agent_spec
from gym_llm.agents.mailbox import EpisodeOver

if TYPE_CHECKING:
    from gym_llm.agents.agent_engine import AgentEngine

__all__ = ["Agent", "AgentEngine", "AgentEpisode", "EpisodeOver", "Program", "agent_name", "parse_agent_spec"]


def __getattr__(name: str) -> Any:
    if name != "AgentEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gym_llm.agents.agent_engine import AgentEngine  # its servers are slow to import, and settings need them not

    return AgentEngine
