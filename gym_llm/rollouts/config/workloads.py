"""Workloads of a configuration: every dataset with its verifier."""

from __future__ import annotations

from typing import Any

from gym_llm.errors import UsageError
from gym_llm.rollouts.config.load import Config
from gym_llm.rollouts.workload import Part

_EXAMPLE = "example"


def config_parts(config: Config, engine: str | None, engine_options: dict[str, Any], repeats: int | None) -> list[Part]:
    """Return the parts of a run: for each environment its datasets, without examples if it has others.

    An environment without datasets plays its own tasks. Engine and repeats replace those of the configuration, and
    engine options override its own.

    Raises:
        UsageError: If there is nothing to play.
    """
    parts: list[Part] = []
    for name in config.environments:
        section = config.engine_of(name)
        spec, options = (engine, {}) if engine else (section.engine, section.kwargs)
        parts += environment_parts(config, name, spec, {**options, **engine_options}, repeats)
    return refuse_nothing(parts, config)


def environment_parts(
    config: Config, name: str, engine: str, engine_options: dict[str, Any], repeats: int | None
) -> list[Part]:
    """Return the workloads of one environment section for an engine of this spec.

    Data that is on a hub and not here is left out: `gym-llm data prepare --download` fetches it.
    """
    section = config.environments[name]
    here = [dataset for dataset in section.datasets if not dataset.is_on_a_hub_only]
    datasets = [dataset for dataset in here if dataset.type != _EXAMPLE] or here or section.datasets
    sources: list[tuple[str, str | None, int, dict[str, Any]]] = [
        (f"{name}/{dataset.name}", dataset.source, dataset.num_repeats, dataset.env_kwargs(section.kwargs))
        for dataset in datasets
    ]
    return [
        Part(
            section.env,
            engine,
            source,
            kwargs,
            {**({"dataset": dataset} if engine.startswith("replay:") else {}), **engine_options},
            repeats or section.repeats or count,
            dataset,
            config.secrets,
            section.limit,
            section.sampling or {},
        )
        for dataset, source, count, kwargs in sources or [(name, section.tasks, 1, section.kwargs)]
    ]


def refuse_nothing(parts: list[Part], config: Config) -> list[Part]:
    """Return the parts; raise UsageError if the list is empty."""
    if not parts:
        raise UsageError("\n".join(["The configuration names no environment to play.", *config.unmapped]))
    return parts
