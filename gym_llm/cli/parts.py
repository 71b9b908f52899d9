"""What `gym-llm rollout` plays: one environment, or every dataset of a configuration with its own verifier."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gym_llm.cli.config import read_config
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from gym_llm.config import Config, EngineSection

DEFAULT_ENGINE = "pocket"
_TRAINING = ("train", "validation")


@dataclass(frozen=True)
class Part:
    """One environment with one source of tasks, and who plays it.

    Attributes:
        env_id: The environment.
        tasks: The source of its tasks; None for the environment's own.
        env_kwargs: Its further arguments.
        engine: The engine's spec.
        engine_options: The engine's arguments.
        repeats: How often each task is played.
        dataset: `section/dataset` of the configuration, or the section where it names no dataset; "" without one.
        shown: `env_kwargs`, `engine` and `engine_options` without secrets, to be written down.
    """

    env_id: str
    tasks: str | None
    env_kwargs: dict[str, Any]
    engine: str
    engine_options: dict[str, Any]
    repeats: int
    dataset: str = ""
    shown: dict[str, Any] = field(default_factory=dict)


def parts_of(args: argparse.Namespace) -> list[Part]:
    """The parts of a run, at least one.

    Raises:
        UsageError: If the arguments do not fit together, or the configuration cannot be used.
    """
    from gym_llm.config.compose import names_files
    from gym_llm.config.secrets import mask

    if args.config or any(map(names_files, args.settings)):
        return _from_config(args)
    if len(args.settings) != 1:
        given = f", got {' '.join(args.settings)}" if args.settings else ""
        raise UsageError(f"Give one ENV_ID, or --config FILE{given}. `gym-llm list` names the environments.")
    options = _engine_options(args)
    engine = args.engine or DEFAULT_ENGINE
    kwargs = _read_env_kwargs(args.env_kwargs)
    shown = {"env_kwargs": kwargs, "engine": engine, "engine_options": mask(options)}
    return [Part(args.settings[0], args.tasks, kwargs, engine, options, args.repeats or 1, shown=shown)]


def _from_config(args: argparse.Namespace) -> list[Part]:
    """Of each environment its training and validation data; its examples where it has no other; its own tasks else."""
    for option in ("tasks", "env_kwargs", "episodes"):
        if getattr(args, option) is not None:
            instead = {"tasks": "`datasets`", "env_kwargs": "`kwargs`", "episodes": "--limit and --repeats"}[option]
            raise UsageError(f"--{option.replace('_', '-')} does not go with --config: give {instead}.")
    config = read_config(args.config, args.settings)
    parts = []
    for name, section in config.environments.items():
        engine = _engine(args, config, name)
        training = [dataset for dataset in section.datasets if dataset.type in _TRAINING]
        for dataset in training or section.datasets:
            repeats = args.repeats or dataset.num_repeats
            parts.append(_part(config, name, f"{name}/{dataset.name}", dataset.source, engine, repeats))
        if not section.datasets:
            parts.append(_part(config, name, name, None, engine, args.repeats or 1))
    if not parts:
        raise UsageError("\n".join(["The configuration names no environment to play.", *config.unmapped]))
    return parts


def _engine(args: argparse.Namespace, config: Config, name: str) -> EngineSection:
    from gym_llm.config import EngineSection

    engine = EngineSection(engine=args.engine) if args.engine else config.engine_of(name)
    return engine.model_copy(update={"kwargs": {**engine.kwargs, **_engine_options(args)}})


def _engine_options(args: argparse.Namespace) -> dict[str, Any]:
    model = {} if args.model is None else {"model": args.model}
    return {**model, **dict(args.engine_options)}


def _part(config: Config, name: str, dataset: str, tasks: str | None, engine: EngineSection, repeats: int) -> Part:
    from gym_llm.config.secrets import mask

    section, options = config.environments[name], engine.kwargs
    if engine.engine.startswith("replay:"):
        options = {"dataset": dataset, **options}
    shown = mask({"env_kwargs": section.kwargs, "engine": engine.engine, "engine_options": options}, config.secrets)
    return Part(section.env, tasks, section.kwargs, engine.engine, options, repeats, dataset, shown)


def _read_env_kwargs(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        kwargs = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"--env-kwargs is not JSON ({error}); expected an object such as '{{\"max_turns\": 4}}'."
        ) from None
    if not isinstance(kwargs, dict):
        raise UsageError(f"--env-kwargs is a JSON object such as '{{\"max_turns\": 4}}', got {text}.")
    return kwargs
