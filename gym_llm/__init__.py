"""Gymnasium for language models.

Every verifier is a `gymnasium.Env`: observations are OpenAI-Responses requests, actions are Responses outputs, rewards
train the model. Importing this package imports Gymnasium and registers every `gym_llm/*` id. Everything else is
imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gym_llm.core.registry.ids  # noqa: F401 - registers the ids
from gym_llm.version import __version__ as __version__

if TYPE_CHECKING:
    from gym_llm.core.fork import fork_env
    from gym_llm.core.hooks import hook
    from gym_llm.core.rewards import Metric
    from gym_llm.core.task_sampler import TaskSampler
    from gym_llm.core.tasks import BaseTask
    from gym_llm.core.tools import tool
    from gym_llm.core.verifier_env import VerifierEnv
    from gym_llm.engines import make_engine
    from gym_llm.errors import IllegalMove, JudgeError, ToolError
    from gym_llm.evaluation.evaluation import evaluate
    from gym_llm.judge.multi_agent_env import MultiAgentEnv
    from gym_llm.rollouts.benchmarks import benchmark
    from gym_llm.rollouts.fork import fork
    from gym_llm.rollouts.play import collect, rollout
    from gym_llm.rollouts.run import Run
    from gym_llm.rollouts.settings import RolloutSettings
    from gym_llm.rollouts.stream import stream
    from gym_llm.rollouts.workload import Part
    from gym_llm.types import Episode, Item, Request, ResponseDict, Rollout, Verdict

__all__ = [
    "BaseTask",
    "Episode",
    "IllegalMove",
    "Item",
    "JudgeError",
    "Metric",
    "MultiAgentEnv",
    "Part",
    "Request",
    "ResponseDict",
    "Rollout",
    "RolloutSettings",
    "Run",
    "TaskSampler",
    "ToolError",
    "Verdict",
    "VerifierEnv",
    "benchmark",
    "collect",
    "evaluate",
    "fork",
    "fork_env",
    "hook",
    "make_engine",
    "rollout",
    "stream",
    "tool",
]

_HOME = {
    "BaseTask": "gym_llm.core.tasks",
    "Episode": "gym_llm.types",
    "IllegalMove": "gym_llm.errors",
    "Item": "gym_llm.types",
    "JudgeError": "gym_llm.errors",
    "Metric": "gym_llm.core.rewards",
    "MultiAgentEnv": "gym_llm.judge.multi_agent_env",
    "Part": "gym_llm.rollouts.workload",
    "Request": "gym_llm.types",
    "ResponseDict": "gym_llm.types",
    "Rollout": "gym_llm.types",
    "RolloutSettings": "gym_llm.rollouts.settings",
    "Run": "gym_llm.rollouts.run",
    "TaskSampler": "gym_llm.core.task_sampler",
    "ToolError": "gym_llm.errors",
    "Verdict": "gym_llm.types",
    "VerifierEnv": "gym_llm.core.verifier_env",
    "benchmark": "gym_llm.rollouts.benchmarks",
    "collect": "gym_llm.rollouts.play",
    "evaluate": "gym_llm.evaluation.evaluation",
    "fork": "gym_llm.rollouts.fork",
    "fork_env": "gym_llm.core.fork",
    "hook": "gym_llm.core.hooks",
    "make_engine": "gym_llm.engines",
    "rollout": "gym_llm.rollouts.play",
    "stream": "gym_llm.rollouts.stream",
    "tool": "gym_llm.core.tools",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gym_llm' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
