"""Environment ids: ours, and those that other packages add through the entry-point group `gym_llm.envs`."""

from __future__ import annotations

from importlib.metadata import entry_points

import gymnasium as gym

ENTRY_POINT_GROUP = "gym_llm.envs"

_BUILT_IN = {
    "Arithmetic": "arithmetic",
    "Counter": "counter",
    "FollowUp": "follow_up",
    "MathVerify": "math_verify",
    "Mixed": "mixed",
    "MultipleChoice": "multiple_choice",
    "SynonymExtraction": "synonym_extraction",
    "Weather": "weather",
}


def register_envs() -> None:
    """Register every id with Gymnasium. Nothing is imported: entry points are strings until `gym.make`."""
    for name, folder in _BUILT_IN.items():
        gym.register(
            f"gym_llm/{name}-v0",
            entry_point=f"gym_llm.envs.{folder}.env:{name}",
            vector_entry_point=f"gym_llm.vector.entry:{name}",
        )
    for point in entry_points(group=ENTRY_POINT_GROUP):
        gym.register(point.name, entry_point=point.value)


def env_ids() -> list[str]:
    """The registered verifier ids, ours and other packages', sorted.

    >>> "gym_llm/MultipleChoice-v0" in env_ids()
    True
    """
    foreign = {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}
    return sorted(name for name in gym.registry if name.startswith("gym_llm/") or name in foreign)


register_envs()  # here, because `gym_llm` imports this module for it, as soon as there is a Gymnasium to register with
