"""Benchmarks as parts of a run: `gym-llm eval aime25`, `gym_llm.evaluate("aime25", …)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from gym_llm.core.registry.classes import env_arguments
from gym_llm.core.registry.env_files import env_spec
from gym_llm.data.recipes.catalogue import find_benchmark, is_benchmark
from gym_llm.data.recipes.recipe import Benchmark, canonical
from gym_llm.errors import UsageError
from gym_llm.rollouts.workload import Part


def benchmark(name: str) -> Benchmark:
    """Return the recipe of a benchmark.

    >>> benchmark("aime25").repeats
    32

    Args:
        name: E.g. `aime25`, or with a variant, `mmlu_prox:de`; `gym-llm list --benchmarks` names all.

    Raises:
        UsageError: If there is no such benchmark.
    """
    return find_benchmark(name)


def benchmark_part(
    name: str,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    repeats: int | None = None,
    drawn: tuple[int, int] | None = None,
    **part: Any,
) -> Part:
    """Return what plays a benchmark: its environment, tasks, arguments, sampling and repeats.

    Args:
        name: The benchmark's name.
        env_kwargs: Arguments of the environment, over the recipe's own.
        repeats: How often each task is played, instead of the recipe's number.
        drawn: How many tasks are drawn, and with which seed; None for all.
        **part: Further fields of the part, such as `engine`.

    Raises:
        UsageError: If there is no such benchmark, no verifier, or it needs a judge and none is given.
    """
    recipe = find_benchmark(name)
    kwargs = {**recipe.arguments, **(env_kwargs or {})}
    env_id = recipe.required_env()
    if "judge" in recipe.needs and kwargs.get("judge") is None:
        raise UsageError(f"{recipe.name} needs a judge: give --judge http://HOST:PORT/v1, or judge in --env-kwargs.")
    fields: dict[str, Any] = {"dataset": canonical(name).replace(":", "."), "sampling": dict(recipe.sampling)} | part
    tasks = recipe.task_source + (f"#{drawn[0]}@{drawn[1]}" if drawn else "")
    return Part(env_id, tasks=tasks, env_kwargs=kwargs, repeats=repeats or recipe.repeats, **fields)


def takes_judge(target: str) -> bool:
    """Whether an environment, one in a file too, or the one of a benchmark has the argument `judge`.

    Raises:
        UsageError: If a file has no such environment.
    """
    if target not in gym.registry and is_benchmark(target):
        target = find_benchmark(target).env_id or ""
    try:
        entry_point = env_spec(target).entry_point
        creator: Any = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except (gym.error.Error, ImportError):
        return True  # what plays it says what is wrong with it
    known = env_arguments(creator) if isinstance(creator, type) else None
    return known is None or "judge" in known


def differences(recipe: Benchmark, played: Mapping[str, Any]) -> list[str]:
    """Return how a run differed from a benchmark's recipe, a phrase each.

    Args:
        recipe: The recipe.
        played: A run's description of the part (`OpenWorkload.describe`), with `sampling` as it was.
    """
    found = []
    if played["env_id"] != recipe.env_id:
        found.append(f"environment {played['env_id']}, not {recipe.env_id}")
    if played["repeats"] != recipe.repeats:
        found.append(f"{played['repeats']} repeats, not {recipe.repeats}")
    kwargs = played["env_kwargs"]
    found += [
        f"{name} {kwargs.get(name)!r}, not {recipe.env_kwargs.get(name)!r}"
        for name in sorted({*kwargs, *recipe.env_kwargs} - {"judge"})
        if kwargs.get(name) != recipe.env_kwargs.get(name)
    ]
    if "prompt_sha256" in played and kwargs.get("prompt_config"):
        found.append("another prompt")
    sampling = played.get("sampling") or {}
    found += [
        f"{name} {sampling.get(name)}, not {recipe.sampling.get(name, 'the server’s own')}"
        for name in sorted({*sampling, *recipe.sampling})
        if sampling.get(name) != recipe.sampling.get(name)
    ]
    return found
