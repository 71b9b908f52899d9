"""RAGEN: our environments among those of `ragen.env`, text in and text out.

RAGEN is on no package index (the package of that name is another's). Its contract is here as
`ragen/llm_agent/es_manager.py` at cfc808649d19 and `ragen/env/lights_out` at 913baf97109f have it, in
https://github.com/RAGEN-AI/RAGEN.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import gymnasium as gym

from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job, open_plan
from gym_llm.trainers.shared.text_messages import first_messages, next_messages
from gym_llm.types import Item
from gym_llm.wrappers import ReasoningParser, TextAction, ToolCallParser

_WRAPPERS = (ToolCallParser, ReasoningParser, TextAction)


@dataclass
class RagenConfig:
    """The value of `custom_envs.TAG.env_config` in RAGEN's configuration.

    Attributes:
        env_id: A registered id, e.g. `"gym_llm/Weather-v0"`.
        tasks: A file of tasks; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        limit: Number of tasks to play; None for all, or for 64 if the environment generates them.
    """

    env_id: str
    tasks: str | None = None
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None


class RagenEnv(gym.Env[str, str]):
    """An environment for RAGEN: a state is a text, an action is the model's text.

    ```python
    from ragen.env import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS

    REGISTERED_ENVS["gym_llm"], REGISTERED_ENV_CONFIGS["gym_llm"] = RagenEnv, RagenConfig  # env_type: gym_llm
    ```

    A seed chooses the task; RAGEN gives the members of a group the same seed, so they play the same task. The first
    state describes the tools in the format of Hermes, and our parsers find calls and reasoning in an action. RAGEN uses
    the text in the model's `<answer>` as the action, and splits it at its `action_sep`: choose a separator that no
    answer has. RAGEN tokenises texts, so the ids are its own.

    A failure is raised and ends the training: RAGEN has no masked episodes. An environment can be pickled during an
    episode; RAGEN does this to step many environments in processes. The copy plays the actions again, tools included,
    before its next one.

    Args:
        config: The environment and its tasks.
    """

    def __init__(self, config: RagenConfig) -> None:
        self.config = config
        self._begin: tuple[int | None, list[str]] | None = None
        self._env: gym.Env[Any, Any] | None = None
        self._text = ""
        self._said = 0

    def reset(self, *, seed: int | None = None, mode: str | None = None, **_: Any) -> str:  # type: ignore[override]
        """Begin an episode; returns its first state. `mode` is RAGEN's, and not looked at."""
        super().reset(seed=seed)
        factory, first_task, count = _tasks_of(self.config)
        if self._env is None:
            self._env = factory.make(_WRAPPERS)
        chosen = int(self.np_random.integers(2**31)) if seed is None else seed
        task = first_task + chosen % count
        request, _info = self._env.reset(seed=Job(task, chosen).env_seed(0), options={"task_index": task})
        self._begin, self._said = (chosen, []), len(request["input"])
        self._text = _joined(first_messages(request))
        return self._text

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:  # type: ignore[override]
        """Take a turn.

        Returns:
            The next state ("" at the end), the reward, whether the episode is over, and a flat info of numbers. The
            info has `success` (a reward of 1 or more at the end) and RAGEN's `action_is_valid` and
            `action_is_effective`.
        """
        if self._begin is None:
            raise gym.error.ResetNeeded("Call reset before step.")
        seed, actions = self._begin
        if self._env is None:  # a copy from another process
            self.reset(seed=seed)
            for earlier in actions:
                self._take(earlier)
            self._begin = seed, actions
        actions.append(action)
        return self._take(action)

    def render(self, mode: str | None = None, **_: Any) -> str:  # type: ignore[override]
        """The state."""
        return self._text

    def close(self) -> None:
        """Close the environment."""
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def _take(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        env = self._env
        assert env is not None
        request, reward, terminated, truncated, info = env.step(action)
        items: list[Item] = request["input"][self._said :]
        self._said = len(request["input"])
        done = terminated or truncated
        self._text = "" if done else _joined(next_messages(items))
        numbers = {name: value for name, value in info.items() if isinstance(value, int | float)}
        told = {"action_is_valid": True, "action_is_effective": True, "success": done and float(reward) >= 1}
        return self._text, float(reward), done, {**numbers, **told}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_env": None}


@lru_cache(maxsize=8)
def _opened(env_id: str, tasks: str | None, env_kwargs: str, limit: int | None) -> tuple[EnvFactory, int, int]:
    plan = open_plan(EnvFactory(env_id, tasks=tasks, env_kwargs=json.loads(env_kwargs)), limit=limit)
    return plan.factory, plan.first_task, plan.num_tasks


def _tasks_of(config: RagenConfig) -> tuple[EnvFactory, int, int]:
    """What makes the environments, the first task and how many there are; once in a process."""
    return _opened(config.env_id, config.tasks, json.dumps(config.env_kwargs, sort_keys=True), config.limit)


def _joined(messages: list[dict[str, str]]) -> str:
    return "\n\n".join(message["content"] for message in messages)
