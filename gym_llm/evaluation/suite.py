"""The plan of an evaluation: environments, each by every engine, or the sections of a suite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import gymnasium as gym

from gym_llm.core.registry.ids import parse_id
from gym_llm.data.recipes.catalogue import is_benchmark
from gym_llm.engines import Engine
from gym_llm.errors import UsageError
from gym_llm.rollouts.benchmarks import benchmark_part
from gym_llm.rollouts.config import Config
from gym_llm.rollouts.config.workloads import environment_parts, refuse_nothing
from gym_llm.rollouts.workload import Part
from gym_llm.types import Row
from gym_llm.utils.secrets import mask, register_secrets

DEFAULT_ENGINE = "pocket"

EngineNames: TypeAlias = str | Engine | Sequence[str | Engine] | Mapping[str, str | Engine]

_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)=(.+)", re.DOTALL)
_UNFIT = re.compile(r"[^\w.-]+")
_LONGEST = 100


@dataclass(frozen=True)
class NamedEngine:
    """An engine and its arguments."""

    engine: str | Engine
    options: dict[str, Any] = field(default_factory=dict)


def env_parts(
    targets: Sequence[str | Part],
    engines: EngineNames | None,
    *,
    tasks: str | list[Row] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    kwargs_by_env: Mapping[str, dict[str, Any]] | None = None,
    engine_options: dict[str, Any] | None = None,
    repeats: int | None = None,
    drawn: tuple[int, int] | None = None,
) -> dict[str, list[Part]]:
    """Every environment by every engine.

    Args:
        targets: Ids of environments, names of benchmarks; or parts, whose `dataset` names them in the results, and
            whose engine is not used.
        engines: Specs, `NAME=SPEC`, engines that are running, or either by name; None for the pocket model.
        tasks: Of the environment, where there is one.
        env_kwargs: Of every environment that is named by its id.
        kwargs_by_env: Of single ones of them, by id; they go over those of all.
        engine_options: Of every engine.
        repeats: How often each task is played; None for once, or what a part or a benchmark says.
        drawn: How many tasks of each benchmark are drawn, and with which seed; None for all.

    Returns:
        What each engine plays, by the engine's name.

    Raises:
        UsageError: If there is nothing to play, or names are not told apart.
    """
    if not targets:
        raise UsageError(
            "Name a benchmark, an environment or a suite: see `gym-llm list --benchmarks` and `gym-llm list`."
        )
    if len(targets) > 1 and tasks is not None:
        raise UsageError("Several environments have their own tasks: give them in the sections of a suite.")
    if (tasks is not None or env_kwargs) and not all(isinstance(target, str) for target in targets):
        raise UsageError("A Part has its own tasks and arguments: give them there.")
    own = kwargs_by_env or {}
    parts = []
    for target in targets:
        if not isinstance(target, str):
            parts.append(target)
            continue
        kwargs = {**(env_kwargs or {}), **own.get(target, {})}
        if target not in gym.registry and is_benchmark(target):
            if tasks is not None:
                raise UsageError(f"{target} is a benchmark, which has its own tasks: name an environment with --tasks.")
            parts.append(benchmark_part(target, env_kwargs=kwargs, repeats=repeats, drawn=drawn))
        else:
            parts.append(Part(target, tasks=tasks, env_kwargs=kwargs))
    names = _dataset_names(parts)
    return {
        name: [
            replace(
                part,
                dataset=dataset,
                engine=engine.engine,
                engine_options={**_replay_options(engine.engine, dataset, len(parts)), **engine.options},
                repeats=repeats or part.repeats,
            )
            for part, dataset in zip(parts, names, strict=True)
        ]
        for name, engine in _named(engines or DEFAULT_ENGINE, {}, engine_options or {}).items()
    }


def suite_parts(
    config: Config,
    engines: EngineNames | None,
    *,
    engine_options: dict[str, Any] | None = None,
    repeats: int | None = None,
) -> dict[str, list[Part]]:
    """Return the parts of a suite: each environment with the engine of its section, or with every engine of the suite.

    Args:
        config: The suite, loaded with `one_engine=False`.
        engines: Engines that replace those of the suite: as for `env_parts`, or names of its sections.
        engine_options: Options of every engine; they override the sections' options.
        repeats: Repeats that replace those of the sections.

    Returns:
        The parts that each engine plays, by the engine's name.

    Raises:
        UsageError: If there is nothing to play, or two engines have the same name.
    """
    options = engine_options or {}
    sections = {name: NamedEngine(section.engine, section.kwargs) for name, section in config.engines.items()}
    if not engines:
        specs = [section.engine for section in config.environments.values() if section.engine]
        chosen = _named([*sections, *dict.fromkeys(spec for spec in specs if spec not in sections)], sections, options)
    else:
        chosen = _named(engines, sections, options)
    parts: dict[str, list[Part]] = {name: [] for name in chosen}
    for environment, section in config.environments.items():
        players = [str(mask(section.engine))] if section.engine and not engines else list(chosen)
        for name in players:
            engine = chosen[name]
            spec = engine.engine if isinstance(engine.engine, str) else DEFAULT_ENGINE
            made = environment_parts(config, environment, spec, engine.options, repeats)
            parts[name] += [replace(part, engine=engine.engine) for part in made]
    refuse_nothing([part for each in parts.values() for part in each], config)
    return {name: each for name, each in parts.items() if each}


def file_names(engines: Iterable[str]) -> dict[str, str]:
    """The name of each engine's file of records.

    Raises:
        UsageError: If two would be the same, where small and capital letters are.

    >>> file_names(["base", "http://localhost:8000/v1"])
    {'base': 'base.jsonl', 'http://localhost:8000/v1': 'http-localhost-8000-v1.jsonl'}
    """
    files: dict[str, str] = {}
    owners: dict[str, str] = {}
    for engine in engines:
        stem = _UNFIT.sub("-", engine.removesuffix(".jsonl")).strip("-.")[:_LONGEST] or "engine"
        if (other := owners.setdefault(stem.lower(), engine)) != engine:
            raise UsageError(f"The engines {other} and {engine} have too much the same name: name them, as in a=SPEC.")
        files[engine] = f"{stem}.jsonl"
    return files


def _named(
    engines: EngineNames, sections: Mapping[str, NamedEngine], options: dict[str, Any]
) -> dict[str, NamedEngine]:
    """The engines by name; a spec's own is the spec without secrets."""
    if isinstance(engines, (str, Engine)):
        engines = [engines]
    pairs: list[tuple[str | None, str | Engine]] = (
        list(engines.items()) if isinstance(engines, Mapping) else [(None, engine) for engine in engines]
    )
    named: dict[str, NamedEngine] = {}
    for name, engine in pairs:
        if isinstance(engine, str) and name is None and (match := _NAMED.fullmatch(engine.strip())):
            name, engine = match[1], match[2]
        register_secrets(engine)
        base = sections.get(engine, NamedEngine(engine)) if isinstance(engine, str) else NamedEngine(engine)
        own = engine if isinstance(engine, str) else getattr(engine, "model", None) or type(engine).__name__
        name = str(mask(own)) if name is None else name
        if name in named:
            raise UsageError(f"Two engines are called {name}: name them, as in a={name}.")
        named[name] = NamedEngine(base.engine, {**base.options, **options} if isinstance(base.engine, str) else {})
    return named


def _dataset_names(parts: Sequence[Part]) -> list[str]:
    """Return the environments' names in the results: short where that is unambiguous."""
    short = [parse_id(re.split(r"[/:]", part.env_id)[-1])[1].removesuffix(".py") for part in parts]
    names = [
        part.dataset or (name if short.count(name) == 1 else part.env_id)
        for part, name in zip(parts, short, strict=True)
    ]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"Two of the environments are called {repeated[0]}: name them by the sections of a suite.")
    return names


def _replay_options(engine: str | Engine, dataset: str, count: int) -> dict[str, Any]:
    return {"dataset": dataset} if count > 1 and isinstance(engine, str) and engine.startswith("replay:") else {}
