"""What the viewer says of a whole run: its figures, a histogram of its rewards, and a grid of tasks and repeats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gym_llm.evaluation.view.columns import OUTCOMES, UNREADABLE, Table
from gym_llm.stats.intervals import clustered_error, number

_BINS = 20
_MOST_DATASETS = 100
_MOST_REPEATS = 256


def run_stats(table: Table, *, dataset: str | None = None, offset: int = 0, limit: int = 200) -> dict[str, Any]:
    """The figures of a run as JSON values.

    Args:
        table: Its episodes.
        dataset: Only these; None for all.
        offset: The first task of the grid.
        limit: The most tasks of the grid.
    """
    of = np.ones(len(table), bool) if dataset is None else table.having("dataset", dataset)
    shown = np.flatnonzero(of)
    stats = _figures(table, shown)
    used = np.unique(table.columns["dataset"][shown])[:_MOST_DATASETS].tolist()
    stats["datasets"] = {
        table.strings[index] if index >= 0 else "": _figures(table, shown[table.columns["dataset"][shown] == index])
        for index in used
    }
    stats["grid"] = _grid(table, shown, offset, limit)
    return stats


def _figures(table: Table, shown: NDArray[Any]) -> dict[str, Any]:
    outcomes = np.bincount(table.columns["outcome"][shown], minlength=len(OUTCOMES)).tolist()
    kinds, counts = np.unique(table.columns["failure_kind"][shown], return_counts=True)
    rewards = table.columns["reward"][shown]
    has_reward = ~np.isnan(rewards)
    episodes = len(shown) - outcomes[UNREADABLE]
    scored = rewards[has_reward]
    with np.errstate(all="ignore"):  # rewards such as 1e300
        mean = float(scored.mean()) if len(scored) else math.nan
        error = _standard_error(table, shown[has_reward], scored, mean)
    return {
        "episodes": episodes,
        "outcomes": {name: count for name, count in zip(OUTCOMES, outcomes, strict=True) if count},
        "failure_kinds": {table.strings[kind]: int(n) for kind, n in zip(kinds, counts, strict=True) if kind >= 0},
        "mean": number(mean),
        "standard_error": number(error),
        "coverage": len(scored) / episodes if episodes else None,
        "histogram": _histogram(scored),
    }


def _standard_error(table: Table, shown: NDArray[Any], rewards: NDArray[Any], mean: float) -> float:
    """Clustered by task, as `gym_llm.stats.run_summary.Summary.standard_error`, which gives the source."""
    n = len(rewards)
    if n < 2:
        return math.nan
    tasks = _tasks(table, shown)[0]
    clusters = int(tasks.max()) + 1
    if clusters == 1:
        return float(rewards.std(ddof=1)) / math.sqrt(n)
    sums = np.bincount(tasks, rewards - mean)
    return clustered_error(float((sums**2).sum()), clusters, n)


def _tasks(table: Table, shown: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The number of each row's task, and each task's dataset and index."""
    datasets, tasks = table.columns["dataset"][shown].astype(np.int64), table.columns["task"][shown]
    indices, ranks = np.unique(tasks, return_inverse=True)
    keys, numbers = np.unique((datasets + 1) * (len(indices) + 1) + ranks, return_inverse=True)
    if not len(keys):
        return numbers, keys, keys
    return numbers, keys // (len(indices) + 1) - 1, indices[keys % (len(indices) + 1)]


def _histogram(rewards: NDArray[Any]) -> dict[str, list[Any]]:
    if not len(rewards):
        return {"edges": [], "counts": []}
    low, high = min(0.0, float(rewards.min())), max(1.0, float(rewards.max()))
    if not math.isfinite(high - low):
        return {"edges": [low, high], "counts": [len(rewards)]}
    counts, edges = np.histogram(rewards, bins=_BINS, range=(low, high))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _grid(table: Table, shown: NDArray[Any], offset: int, limit: int) -> dict[str, Any]:
    """A page of the grid: rewards and rows by task and repeat. An episode played twice is shown as it was last."""
    shown = shown[table.columns["outcome"][shown] != UNREADABLE]
    numbers, datasets, indices = _tasks(table, shown)
    repeats = min(_MOST_REPEATS, int(table.columns["repeat"][shown].max()) + 1) if len(shown) else 0
    page = slice(offset, offset + limit)
    size = len(indices[page])
    is_shown = (numbers >= offset) & (numbers < offset + size) & (table.columns["repeat"][shown] < repeats)
    rows, at = shown[is_shown], (numbers[is_shown] - offset, table.columns["repeat"][shown[is_shown]])
    cells, rewards = np.full((size, repeats), -1, np.int64), np.full((size, repeats), np.nan)
    cells[at], rewards[at] = rows, table.columns["reward"][rows]
    return {
        "total": len(indices),
        "tasks": indices[page].tolist(),
        "datasets": [table.strings[index] if index >= 0 else "" for index in datasets[page].tolist()],
        "repeats": repeats,
        "rewards": [[number(reward) for reward in line] for line in rewards.tolist()],
        "cells": [[None if n < 0 else n for n in line] for line in cells.tolist()],
    }
