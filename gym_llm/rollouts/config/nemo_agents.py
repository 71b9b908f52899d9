"""NeMo Gym's agents, read as the way in which their environment is played here.

Here an environment asks the model turn by turn, as a `simple_agent` does there. Other agents are that with another
limit of turns, or are missing.
"""

from __future__ import annotations

from typing import Any

from gym_llm.rollouts.config.mapped import Server

_SIMULATION = "conversational_tool_use/simulation"
_SINGLE = "tool_simulation_agent"
_REFINES = "proof_refinement_agent"
_TURNS = {"simple_agent": "max_steps", _SIMULATION: "max_agent_steps"}
"""The options that limit the turns, by agent."""
_CORRECTIONS = "max_correction_turns"

_ALWAYS = {(_SIMULATION, "seed_first_user_message"), (_REFINES, "include_all_attempts")}
"""Options that are always so here: nothing is lost where they are true."""

_GENERATORS = ("domain_generation", "policy_tool_generation", "scenario_generation")


def missing_agent(agent: Server) -> str | None:
    """Return why an agent has no counterpart, as the end of a sentence; None if it has one."""
    if agent.implementation.startswith("conversational_tool_use/") and agent.implementation.endswith(_GENERATORS):
        return "it makes task files and has no reward: run it in NeMo Gym, and play the files it makes"
    if agent.values.get("resources_server") is None:
        return "it has no resources_server, so there is no environment to play"
    if agent.implementation in (*_TURNS, _SINGLE, _REFINES):
        return None
    return f"there is no {agent.implementation}; the environment is played turn by turn"


def limit_turns(agent: Server, kwargs: dict[str, Any]) -> None:
    """Set the limit of turns that an agent has by itself.

    A `tool_simulation_agent` asks the model once. A `proof_refinement_agent` asks once more for each correction, which
    the environment's `user_turn` gives.

    Args:
        agent: Its section.
        kwargs: The environment's arguments, which get `max_turns`.
    """
    if agent.implementation == _SINGLE:
        kwargs["max_turns"] = 1
    elif agent.implementation == _REFINES and isinstance(turns := agent.values.get(_CORRECTIONS, 0) or 0, int):
        kwargs["max_turns"] = turns + 1


def map_agent_options(agent: Server, key: str, value: Any, kwargs: dict[str, Any]) -> bool:
    """Add an agent's option to the environment's arguments.

    Returns:
        Whether it has a counterpart; False also for an option that is off and always on here.
    """
    if key in _TURNS.values() and value:
        kwargs["max_turns"] = value
        return True
    if key == _CORRECTIONS and agent.implementation == _REFINES:
        return True
    return value is True and (agent.implementation, key) in _ALWAYS
