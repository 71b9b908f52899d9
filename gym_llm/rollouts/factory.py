"""Making many environments of one kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from gym_llm.core.registry.classes import known_arguments
from gym_llm.core.registry.env_files import env_spec, find_env
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.types import Row
from gym_llm.utils.secrets import register_secrets
from gym_llm.utils.text import did_you_mean

Wrap: TypeAlias = Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]
"""A wrapper class, or any function that wraps an environment."""

_LIMIT = "max_episode_steps"  # an argument of `gym.make`


class EnvFactory:
    """Makes environments that share one task source, so that a large task file is read, checked and held once.

    Each environment is like that of `gym.make`, with two differences. Gymnasium's checks of the first steps are left
    out: they fail the episode after one that failed. `max_episode_steps` limits `VerifierEnv.max_turns` in place of a
    `TimeLimit`, so that `verify` scores the episodes that it truncates.

    Args:
        env_id: A registered id of a `VerifierEnv`, its spec, or a file that has one
            (`gym_llm.core.registry.env_files.find_env`).
        tasks: See `VerifierEnv`.
        env_kwargs: Its further arguments, and `max_episode_steps`.

    Attributes:
        arguments: The three arguments, to make an equal factory in another process.
        tasks: The source that the environments share; None if tasks come with each reset.
        config: The arguments of their class's `Config`.
        scores_groups: Whether their class scores groups of episodes, with `verify_group`.
        scoring_classes: The classes whose code scores their episodes.

    Raises:
        gymnasium.error.Error: If the id is unknown.
        TypeError: If the environment is not a `VerifierEnv`.
        UsageError: If a file has no such environment.
    """

    def __init__(
        self, env_id: str | EnvSpec, *, tasks: str | list[Row] | None = None, env_kwargs: dict[str, Any] | None = None
    ) -> None:
        register_secrets(env_kwargs)
        if isinstance(env_id, str):
            env_id = find_env(env_id)
        self.arguments: dict[str, Any] = {"env_id": env_id, "tasks": tasks, "env_kwargs": env_kwargs}
        self.env_id = env_id.id if isinstance(env_id, EnvSpec) else env_id
        kwargs = {"disable_env_checker": True, **(env_kwargs or {})}
        limit = kwargs.get(_LIMIT)
        task_argument: dict[str, Any] = {"tasks": tasks} if tasks is not None else {}
        try:
            first = gym.make(env_id, **{**kwargs, _LIMIT: -1}, **task_argument)
        except TypeError as error:
            _check_arguments(env_id, env_kwargs or {})
            sentence, _, _ = str(error).partition(" was raised from the environment creator")  # added by `gym.make`
            raise TypeError(sentence) from error
        verifier = first.unwrapped
        if not isinstance(verifier, VerifierEnv) or verifier.spec is None:
            raise TypeError(f"{env_id} is a {type(verifier).__name__}, not a gym_llm.VerifierEnv.")
        self.tasks = verifier.tasks
        self.config = verifier.config
        self.scores_groups = verifier.scores_groups
        self.scoring_classes = verifier.scoring_classes()
        self._bare_spec = verifier.spec
        self._creator = _creator(verifier.spec)
        self._kwargs = {name: value for name, value in verifier.spec.kwargs.items() if name != "tasks"}
        self._takes_tasks = _takes(self._creator, {**self._kwargs, "tasks": self.tasks})
        spec = env_id if isinstance(env_id, EnvSpec) else gym.spec(verifier.spec.id)
        self._limit = limit or spec.max_episode_steps or -1
        self._wrapper_specs = spec.additional_wrappers
        bare = first.env if isinstance(first, OrderEnforcing) else first  # a `VerifierEnv` enforces it itself
        self._spare = None if self._wrapper_specs else self._limited(bare)

    def make(self, wrappers: Sequence[Wrap] = ()) -> gym.Env[Any, Any]:
        """Make one environment and wrap it, the first wrapper innermost."""
        env, self._spare = (self._another() if self._spare is None else self._spare), None
        for wrap in wrappers:
            env = wrap(env)
        return env

    def _another(self) -> gym.Env[Any, Any]:
        """Make another environment. `gym.make` would cost several times as much as the environment."""
        if self._takes_tasks:
            env = self._creator(**self._kwargs, tasks=self.tasks)
        else:
            env = self._creator(**self._kwargs)
            env.unwrapped.tasks = self.tasks  # type: ignore[attr-defined]
        env.unwrapped.spec = self._bare_spec
        own_wrappers = _count_wrappers(env) if self._wrapper_specs else 0
        self._limited(env)
        for wrapper in self._wrapper_specs[own_wrappers:]:
            env = cast(Any, load_env_creator(wrapper.entry_point))(env=env, **(wrapper.kwargs or {}))
        return env

    def _limited(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        if self._limit != -1:
            cast(VerifierEnv, env.unwrapped).limit_turns(self._limit)
        return env


def _check_arguments(env_id: str | EnvSpec, kwargs: dict[str, Any]) -> None:
    """Raise an error for arguments that the environment's class does not have."""
    spec = env_spec(env_id)
    entry = spec.entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    if not isinstance(creator, type):
        return
    known = known_arguments(creator) | {_LIMIT}
    for name in kwargs:
        if name not in known:
            hint = did_you_mean(name, known) or f" It has {', '.join(sorted(known - {_LIMIT}))}."
            raise TypeError(f"{spec.id} has no argument {name!r}.{hint}")


def _creator(spec: EnvSpec) -> Callable[..., gym.Env[Any, Any]]:
    return cast(Any, spec.entry_point if callable(spec.entry_point) else load_env_creator(cast(str, spec.entry_point)))


def _takes(creator: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(creator).bind(**kwargs)
    except TypeError:
        return False
    return True


def _count_wrappers(env: gym.Env[Any, Any]) -> int:
    count = 0
    while isinstance(env, gym.Wrapper):
        count += not isinstance(env, OrderEnforcing | PassiveEnvChecker | gym.wrappers.TimeLimit)
        env = env.env
    return count
