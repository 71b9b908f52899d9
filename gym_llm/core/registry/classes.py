"""Environment classes: found by id, their arguments, and their `config.yaml`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import gymnasium as gym
import yaml
from gymnasium.envs.registration import load_env_creator

from gym_llm.core.registry.ids import verifier_folder
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import DataError


def env_class(env_id: str) -> type[VerifierEnv]:
    """Return the class behind a registered id; its `Task` is the schema of rows.

    Raises:
        DataError: If there is no such environment, or it is not a verifier.
    """
    try:
        entry_point = gym.spec(env_id).entry_point
        creator: Any = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except (gym.error.Error, ImportError, AttributeError) as error:
        raise DataError(f"The environment {env_id!r} cannot be loaded ({error}); `gym-llm list` names all.") from None
    if not (isinstance(creator, type) and issubclass(creator, VerifierEnv)):
        raise DataError(f"The environment {env_id!r} is not a subclass of VerifierEnv, so its rows cannot be checked.")
    return creator


def known_arguments(cls: type) -> frozenset[str]:
    """The names of what a class takes, its parents' included as far as each passes the rest on to the next.

    >>> from gym_llm.core.verifier_env import VerifierEnv
    >>> sorted(known_arguments(VerifierEnv))
    ['max_turns', 'prompt_config', 'render_mode', 'sampler', 'tasks']
    """
    config = getattr(cls, "Config", None)
    return frozenset(
        parameter.name
        for _, parameters in _constructors(cls)
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ).union(() if config is None else config.model_fields)


def env_arguments(verifier: type[VerifierEnv]) -> frozenset[str] | None:
    """Return `known_arguments`, or None if the class accepts any argument.

    Returns:
        None where it takes anything: what another package's class does with the rest is its own affair.
    """
    for parent, parameters in _constructors(verifier):
        if _passes_on(parameters) and not parent.__module__.startswith("gym_llm."):
            return None
    return known_arguments(verifier)


def _constructors(cls: type) -> Iterator[tuple[type, list[inspect.Parameter]]]:
    """The classes whose constructors get arguments, and which."""
    for parent in cls.__mro__:
        if "__init__" in vars(parent):
            parameters = list(inspect.signature(vars(parent)["__init__"]).parameters.values())[1:]
            yield parent, parameters
            if parent is VerifierEnv or not _passes_on(parameters):  # its `**arguments` are the fields of `Config`
                return


def _passes_on(parameters: list[inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def nemo_gym_names(env_id: str) -> tuple[str, ...]:
    """Return NeMo Gym's names of an environment."""
    return own_values(env_id, "nemo_gym")


def domain_of(env_id: str) -> str | None:
    """Return an environment's domain, e.g. `math`; None if it is not declared."""
    named = (section.get("domain") for section in _own_sections(env_id))
    return next((domain for domain in named if isinstance(domain, str)), None)


def public_splits(env_id: str) -> list[str]:
    """Return which of `train` and `validation` an environment's `config.yaml` names on the Hugging Face hub."""
    datasets = [dataset for section in _own_sections(env_id) for dataset in section.get("datasets") or ()]
    found = {dataset.get("type") for dataset in datasets if dataset.get("huggingface_identifier")}
    return [split for split in ("train", "validation") if split in found]


@cache
def own_values(env_id: str, key: str) -> tuple[str, ...]:
    """Return the values under a key of an environment's own sections; empty if the file cannot be read."""
    listed = (section.get(key) for section in _own_sections(env_id))
    return tuple(name for names in listed if isinstance(names, list) for name in names)


@cache
def _own_sections(env_id: str) -> tuple[dict[str, Any], ...]:
    folder = verifier_folder(env_id)
    try:
        sections = yaml.load((folder / "config.yaml").read_bytes(), _Loader) if folder else {}
    except (OSError, ValueError, yaml.YAMLError):
        return ()
    values = sections.values() if isinstance(sections, dict) else ()
    return tuple(section for section in values if isinstance(section, dict) and section.get("env") == env_id)
