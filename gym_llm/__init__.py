"""Gymnasium for language models.

Every verifier is a `gymnasium.Env`: observations are OpenAI-Responses requests, actions are Responses outputs, rewards
train the model. Importing this package registers every `gym_llm/*` id; everything else is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gym_llm.registration import register_envs

if TYPE_CHECKING:
    from gym_llm.engines import make_engine
    from gym_llm.env import VerifierEnv
    from gym_llm.rollout import collect, rollout
    from gym_llm.rollout.part import Part
    from gym_llm.rollout.run import Run
    from gym_llm.rollout.settings import RolloutSettings
    from gym_llm.tasks import BaseTask
    from gym_llm.tools import tool
    from gym_llm.types import Episode, Item, Request, ResponseDict, Rollout, Verdict

__version__ = "0.1.0"

__all__ = [
    "BaseTask",
    "Episode",
    "Item",
    "Part",
    "Request",
    "ResponseDict",
    "Rollout",
    "RolloutSettings",
    "Run",
    "Verdict",
    "VerifierEnv",
    "collect",
    "make_engine",
    "rollout",
    "tool",
]

_HOME = {
    "BaseTask": "gym_llm.tasks",
    "Part": "gym_llm.rollout.part",
    "RolloutSettings": "gym_llm.rollout.settings",
    "Run": "gym_llm.rollout.run",
    "VerifierEnv": "gym_llm.env",
    "collect": "gym_llm.rollout",
    "make_engine": "gym_llm.engines",
    "rollout": "gym_llm.rollout",
    "tool": "gym_llm.tools",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gym_llm' has no attribute {name!r}")
    home = import_module(_HOME.get(name, "gym_llm.types"))
    value = home if name == "rollout" else getattr(home, name)  # that module is callable
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


register_envs()
