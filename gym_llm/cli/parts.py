"""What `gym-llm rollout` plays: one environment, or every dataset of a configuration with its own verifier."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gym_llm.cli.config import read_config
from gym_llm.config.compose import names_files
from gym_llm.errors import UsageError
from gym_llm.rollout.part import Part

_TRAINING = ("train", "validation")
_MAX_TURNS = '{"max_turns": 4}'


def parts_of(
    settings: Sequence[str],
    config: Sequence[str],
    *,
    tasks: str | None,
    env_kwargs: str | None,
    engine: str | None,
    model: str | None,
    engine_options: dict[str, Any],
    episodes: int | None,
    repeats: int | None,
    seed: int | None,
) -> tuple[list[Part], dict[str, Any]]:
    """The parts of a run, at least one, and what its summary is to say of where they are from.

    Args:
        settings: The id of one environment; or `key=value`, if there is a configuration.
        config: Its files.
        tasks: What the command was given, like all that follows.
        env_kwargs: JSON.
        engine: A spec; None for the configuration's, or the built-in one.
        model: One of the engine's options.
        engine_options: The others.
        episodes: Not for configurations.
        repeats: Instead of the datasets' own.
        seed: None if none was given: vLLM then samples without, which is faster.

    Raises:
        UsageError: If the arguments do not fit together, or the configuration cannot be used.
    """

    def options_of(spec: str, *more: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {} if seed is None or not spec.strip().startswith("vllm:") else {"seed": seed}
        for layer in (*more, {} if model is None else {"model": model}, engine_options):
            options |= layer
        return options

    if not config and not any(map(names_files, settings)):
        if len(settings) != 1:
            rest = f", got {' '.join(settings)}" if settings else ""
            raise UsageError(f"Give one ENV_ID, or --config FILE{rest}. `gym-llm list` names the environments.")
        kwargs = {} if env_kwargs is None else read_json("--env-kwargs", env_kwargs, _MAX_TURNS)
        engine = engine or "pocket"
        return [Part(settings[0], engine, tasks, kwargs, options_of(engine), repeats or 1)], {"model": model}

    for option, value, instead in (
        ("--tasks", tasks, "`datasets`"),
        ("--env-kwargs", env_kwargs, "`kwargs`"),
        ("--episodes", episodes, "--limit and --repeats"),
    ):
        if value is not None:
            raise UsageError(f"{option} does not go with --config: give {instead}.")
    configuration = read_config(config, settings)
    parts = []
    for name, section in configuration.environments.items():
        own = configuration.engine_of(name)
        spec, options = (engine, {}) if engine else (own.engine, own.kwargs)
        # Of each environment its training and validation data; its examples where it has no other; its own tasks else.
        training = [dataset for dataset in section.datasets if dataset.type in _TRAINING]
        sources = [
            (f"{name}/{dataset.name}", dataset.source, dataset.num_repeats) for dataset in training or section.datasets
        ]
        for dataset, source, count in sources or [(name, None, 1)]:
            replayed = {"dataset": dataset} if spec.startswith("replay:") else {}
            parts.append(
                Part(
                    section.env,
                    spec,
                    source,
                    section.kwargs,
                    options_of(spec, replayed, options),
                    repeats or count,
                    dataset,
                    configuration.secrets,
                )
            )
    if not parts:
        raise UsageError("\n".join(["The configuration names no environment to play.", *configuration.unmapped]))
    return parts, {"config": list(config), "repeats": repeats}


def read_json(option: str, text: str, example: str, kinds: tuple[type, ...] = (dict,)) -> Any:
    """What an option says in JSON.

    Raises:
        UsageError: If it is no JSON, or something else than the example.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option} is not JSON ({error}); expected an object such as '{example}'.") from None
    if not isinstance(value, kinds):
        raise UsageError(f"{option} is a JSON object such as '{example}', got {text}.")
    return value
