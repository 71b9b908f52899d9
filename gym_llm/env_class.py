"""The class of an environment, found without making one, and the arguments that it takes."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from gym_llm.env import VerifierEnv
from gym_llm.errors import DataError


def env_class(env_id: str) -> type[VerifierEnv]:
    """The class behind a registered id, whose `Task` says what a row must have.

    Raises:
        DataError: If there is no such environment, or it is not a verifier.
    """
    try:
        entry_point = gym.spec(env_id).entry_point
        creator: Any = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except (gym.error.Error, ImportError, AttributeError) as error:
        raise DataError(f"The environment {env_id!r} cannot be loaded ({error}); `gym-llm list` names all.") from None
    if not (isinstance(creator, type) and issubclass(creator, VerifierEnv)):
        raise DataError(f"The environment {env_id!r} is no subclass of VerifierEnv, so its rows cannot be checked.")
    return creator


def env_arguments(verifier: type[VerifierEnv]) -> frozenset[str] | None:
    """The names of what a class takes, its parents' included where it passes the rest on to them.

    >>> from gym_llm.env import VerifierEnv
    >>> sorted(env_arguments(VerifierEnv))
    ['max_turns', 'prompt_config', 'render_mode', 'tasks']

    Returns:
        None where it takes anything.
    """
    names: set[str] = set()
    for parent in verifier.__mro__:
        if "__init__" not in vars(parent):
            continue
        own = list(inspect.signature(vars(parent)["__init__"]).parameters.values())[1:]
        passed_on = {parameter.name for parameter in own if parameter.kind is parameter.VAR_KEYWORD}
        names.update({parameter.name for parameter in own} - passed_on)
        if not passed_on:
            return frozenset(names)
        if parent is object or not parent.__module__.startswith("gym_llm."):
            break  # what another package's class does with the rest is its own affair
    return None
