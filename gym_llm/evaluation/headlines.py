"""The figure of a benchmark by its own rule, and what else a reader needs to believe it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gym_llm.core.registry.ids import parse_id
from gym_llm.data.recipes.catalogue import benchmarks_of, find_benchmark
from gym_llm.data.recipes.prepared import prepare
from gym_llm.data.recipes.recipe import Benchmark
from gym_llm.rollouts.benchmarks import differences
from gym_llm.stats.episode_scores import NO_GROUP, EpisodeScore
from gym_llm.stats.figures import evaluate_groups
from gym_llm.stats.intervals import Estimate, estimates
from gym_llm.utils.text import nearest

_MACRO = "macro:"
_FEW = 30
_NORMAL = 1.959963984540054


def headline_field(origin: Mapping[str, Any]) -> str | None:
    """Return the field over whose values a benchmark's figure is averaged; None for another rule or no benchmark."""
    if "benchmark" not in origin:
        return None
    rule = find_benchmark(origin["benchmark"]).headline
    return rule.removeprefix(_MACRO) if rule.startswith(_MACRO) else None


def benchmark_result(
    origin: Mapping[str, Any], played: Mapping[str, Any], scores: Sequence[EpisodeScore], metrics: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return what a report says of a benchmark; None for other tasks.

    Args:
        origin: What the tasks say of their origin (`task_source` in records).
        played: How it was played (`OpenWorkload.describe`).
        scores: The episodes.
        metrics: Their figures.
    """
    if "benchmark" not in origin:
        return None
    recipe = find_benchmark(origin["benchmark"])
    rows, changes = prepare(recipe).rows, differences(recipe, played)
    if recipe.rows is not None and rows != recipe.rows:
        changes.append(f"{rows:,} tasks in the data, not {recipe.rows:,}")
    if metrics["tasks"] < rows:
        changes.append(f"{metrics['tasks']:,} of {rows:,} tasks")
    return {
        **{name: origin[name] for name in ("benchmark", "revision", "digest")},
        "title": recipe.title,
        "rule": recipe.headline,
        "is_share": recipe.is_share,
        "figure": headline(recipe, scores, metrics),
        "tasks_played": metrics["tasks"],
        "tasks": rows,
        "differences": changes,
        "notes": recipe.notes,
        "published": [vars(each) for each in recipe.published],
    }


def headline(recipe: Benchmark, scores: Sequence[EpisodeScore], metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a benchmark's figure by its rule, with its interval; None if nothing has a reward."""
    rule = recipe.headline
    if rule.startswith(_MACRO):
        return _macro(scores, rule.removeprefix(_MACRO), metrics.get("mean_reward"))
    if rule == "f1":
        return _f1(scores)
    if rule == "majority":
        votes = metrics.get("majority_at") or {}
        figure: dict[str, Any] | None = votes.get(max(votes, key=int)) if votes else None
        return figure
    if rule.startswith("metric:"):
        return (metrics.get("declared") or {}).get(rule.removeprefix("metric:"))
    return metrics.get("mean_reward")


def _macro(scores: Sequence[EpisodeScore], name: str, mean: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The mean of the groups' means. The groups are independent: their variances add up.

    A group of one task has no variance of its own: it gets the pooled variance of the others, or of all groups' means.
    If nothing varies, the interval is that of the mean over all tasks.
    """
    groups = evaluate_groups(scores, [name], resamples=0).get(name, {})
    found = [figure for value, each in groups.items() if value != NO_GROUP and (figure := each.get("mean_reward"))]
    if not found:
        return None
    value = sum(figure["value"] for figure in found) / len(found)
    several = [figure for figure in found if figure["tasks"] > 1]
    freedom = sum(figure["tasks"] - 1 for figure in several)
    if several:
        weights = (figure["tasks"] * (figure["tasks"] - 1) for figure in several)
        errors = ((figure["standard_error"] or 0.0) ** 2 for figure in several)
        pooled = sum(weight * error for weight, error in zip(weights, errors, strict=True)) / freedom
    else:
        pooled = sum((figure["value"] - value) ** 2 for figure in found) / max(1, len(found) - 1)
    variances = [(figure["standard_error"] or 0.0) ** 2 if figure["tasks"] > 1 else pooled for figure in found]
    error = math.sqrt(sum(variances)) / len(found)
    if not error and mean and mean.get("interval"):
        low, high = mean["interval"]
        return Estimate(value, error, low, high, low, high, sum(figure["tasks"] for figure in found)).as_dict()
    low, high = max(0.0, value - _NORMAL * error), min(1.0, value + _NORMAL * error)
    return Estimate(value, error, low, high, low, high, sum(figure["tasks"] for figure in found)).as_dict()


def _f1(scores: Sequence[EpisodeScore]) -> dict[str, Any] | None:
    """The harmonic mean of the right share of all answers, and of those that were attempted: a ratio of two sums."""
    tasks: dict[tuple[str, int], list[float]] = {}
    for score in scores:
        if score.reward is not None:
            sums = tasks.setdefault(score.task, [0.0, 0.0])
            right = float(score.info.get("is_correct") or 0.0)
            sums[0] += 2 * right
            sums[1] += right + float(score.info.get("is_incorrect") or 0.0) + 1.0
    if not tasks:
        return None
    columns = np.array(list(tasks.values()))
    return estimates(columns[:, :1], columns[:, 1:], bounded=True)[0].as_dict()


def sample_notice(dataset: str, env_id: str, origin: Mapping[str, Any]) -> str | None:
    """Return the notice for tasks that are a verifier's sample rows, with the benchmark to play instead.

    Args:
        dataset: The tasks' name in the report.
        env_id: The environment.
        origin: What the tasks say of their origin.

    Returns:
        The notice; None for other tasks.
    """
    if not str(origin.get("tasks", "")).startswith("example"):
        return None
    names = benchmarks_of(env_id)
    known = {alias.replace("_", ""): alias for name in names for alias in (name, *find_benchmark(name).aliases)}
    best = nearest(parse_id(env_id)[1].lower(), known, cutoff=0.4)
    play = f" Play the benchmark: gym-llm eval {known[best]}." if best else "" if names else " Give yours with --tasks."
    others = [name for name in names if not best or known[best] not in (name, *find_benchmark(name).aliases)]
    more = f" Benchmarks that it{' also' if best else ''} scores: {', '.join(others[:12])}." if others else ""
    return f"{dataset}: sample data ({origin['tasks']}), not a benchmark: the figures measure nothing.{play}{more}"


def interval_warnings(dataset: str, tasks: int) -> list[str]:
    """Return the warning about intervals over few tasks, if they are few.

    Args:
        dataset: Their name in the report.
        tasks: How many were played.
    """
    if 0 < tasks < _FEW:
        return [f"{dataset}: the intervals are over {tasks} task{'s' if tasks != 1 else ''}."]
    return []


def equal_rewards(dataset: str, engine: str, scores: Sequence[EpisodeScore]) -> list[str]:
    """Return the sentence about episodes from which a group learns nothing, if all repeats of each task are equal.

    Args:
        dataset: The tasks' name in the report.
        engine: The name of the engine that played them.
        scores: The episodes.
    """
    rewards: dict[int, list[float]] = {}
    for score in scores:
        if score.reward is not None:
            rewards.setdefault(score.task_index, []).append(score.reward)
    groups = [each for each in rewards.values() if len(each) > 1]
    if not groups or any(min(each) != max(each) for each in groups):
        return []
    equal = f"all {len(groups):,} groups have equal rewards. Training learns nothing from them."
    return [f"{dataset}, played by {engine}: {equal}"]
