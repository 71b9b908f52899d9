"""Statistics of a run for the viewer: figures, a histogram of rewards, and a grid of tasks and repeats."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gym_llm.evaluation.view.episode_table import OUTCOMES, UNREADABLE, EpisodeTable
from gym_llm.stats.intervals import clustered_error, number

_BINS = 20
_MOST_DATASETS = 100
_MOST_REPEATS = 256
_MOST_POINTS = 2000


class _Columns(NamedTuple):
    """Columns of all episodes, as arrays; datasets are numbered in the order in which they appear, "" is -1."""

    names: list[str]
    dataset: NDArray[Any]
    task: NDArray[Any]
    repeat: NDArray[Any]
    reward: NDArray[Any]
    outcome: NDArray[Any]
    failure_kind: NDArray[Any]


def run_stats(
    table: EpisodeTable, *, dataset: str | None = None, offset: int = 0, limit: int = 200, first: int | None = None
) -> dict[str, Any]:
    """Return the figures of a run as JSON values.

    Args:
        table: Its episodes.
        dataset: The dataset to describe; None for all.
        offset: The first task of the grid.
        limit: The most tasks of the grid.
        first: The number of episodes from the beginning that are in the grid; None for all.
    """
    columns = table.cache.get("stats")
    if columns is None or len(columns.task) != len(table):
        columns = table.cache["stats"] = _columns(table)
    shown = np.arange(len(columns.task))
    if dataset is not None:
        place = columns.names.index(dataset) if dataset in columns.names else -1 if dataset == "" else -2
        shown = np.flatnonzero(columns.dataset == place)
    stats = _figures(columns, shown)
    used = np.unique(columns.dataset[shown])[:_MOST_DATASETS].tolist()
    stats["datasets"] = {
        columns.names[index] if index >= 0 else "": _figures(columns, shown[columns.dataset[shown] == index])
        for index in used
    }
    stats["grid"] = _grid(columns, shown if first is None else shown[shown < first], offset, limit)
    return stats


def points(table: EpisodeTable, dataset: str | None = None) -> dict[str, Any]:
    """Return the length (sampled tokens, or all where these are unknown) and the reward of episodes.

    Of more than two thousand every k-th is returned, so that all parts of the file are represented.
    """
    chosen = "reward NOT NULL AND ifnull(output_tokens, tokens) > 0 AND (?1 IS NULL OR dataset IS nullif(?1, ''))"
    total = table.select("count(*)", f"WHERE {chosen}", (dataset,))[0][0]
    step = max(1, -(-total // _MOST_POINTS))
    inner = f"(SELECT n AS it, row_number() OVER (ORDER BY n) - 1 AS place FROM episodes WHERE {chosen})"
    rows = table.select(
        "n, ifnull(output_tokens, tokens), reward, outcome, task, repeat",
        f"JOIN {inner} ON it = n WHERE place % ?2 = 0 ORDER BY n",
        (dataset, step),
    )
    names = ("n", "tokens", "reward", "outcome", "task", "repeat")
    columns: dict[str, Any] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
    return {**{name: columns.get(name, []) for name in names}, "total": total}


def _columns(table: EpisodeTable) -> _Columns:
    rows = table.select("dataset, ifnull(task, 0), ifnull(repeat, 0), reward, outcome, failure_kind", "ORDER BY n")
    datasets, tasks, repeats, rewards, outcomes, kinds = zip(*rows, strict=True) if rows else ([],) * 6
    names = list(dict.fromkeys(name for name in datasets if name))
    numbers = {None: -1, **{name: n for n, name in enumerate(names)}}
    return _Columns(
        names,
        np.array([numbers[name] for name in datasets], np.int64),
        np.array(tasks, np.int64),
        np.array(repeats, np.int64),
        np.array(rewards, float),
        np.array(outcomes, np.int64),
        np.array(kinds, object),
    )


def _figures(columns: _Columns, shown: NDArray[Any]) -> dict[str, Any]:
    outcomes = np.bincount(columns.outcome[shown], minlength=len(OUTCOMES)).tolist()
    rewards = columns.reward[shown]
    has_reward = ~np.isnan(rewards)
    episodes = len(shown) - outcomes[UNREADABLE]
    scored = rewards[has_reward]
    with np.errstate(all="ignore"):  # rewards such as 1e300
        mean = float(scored.mean()) if len(scored) else math.nan
        error = _standard_error(columns, shown[has_reward], scored, mean)
    return {
        "episodes": episodes,
        "outcomes": {name: count for name, count in zip(OUTCOMES, outcomes, strict=True) if count},
        "failure_kinds": dict(Counter(filter(None, columns.failure_kind[shown].tolist()))),
        "mean": number(mean),
        "standard_error": number(error),
        "coverage": len(scored) / episodes if episodes else None,
        "is_binary": bool(len(scored)) and bool(((scored == 0.0) | (scored == 1.0)).all()),
        "histogram": _histogram(scored),
    }


def _standard_error(columns: _Columns, shown: NDArray[Any], rewards: NDArray[Any], mean: float) -> float:
    """Clustered by task, as `gym_llm.stats.run_summary.Summary.standard_error`, which gives the source."""
    n = len(rewards)
    if n < 2:
        return math.nan
    tasks = _tasks(columns, shown)[0]
    clusters = int(tasks.max()) + 1
    if clusters == 1:
        return float(rewards.std(ddof=1)) / math.sqrt(n)
    sums = np.bincount(tasks, rewards - mean)
    return clustered_error(float((sums**2).sum()), clusters, n)


def _tasks(columns: _Columns, shown: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The number of each row's task, and each task's dataset and index."""
    datasets, tasks = columns.dataset[shown], columns.task[shown]
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


def _grid(columns: _Columns, shown: NDArray[Any], offset: int, limit: int) -> dict[str, Any]:
    """A page of the grid: rewards and rows by task and repeat. An episode played twice is shown as it was last."""
    shown = shown[columns.outcome[shown] != UNREADABLE]
    numbers, datasets, indices = _tasks(columns, shown)
    repeats = min(_MOST_REPEATS, int(columns.repeat[shown].max()) + 1) if len(shown) else 0
    page = slice(offset, offset + limit)
    size = len(indices[page])
    is_shown = (numbers >= offset) & (numbers < offset + size) & (columns.repeat[shown] < repeats)
    rows, at = shown[is_shown], (numbers[is_shown] - offset, columns.repeat[shown[is_shown]])
    cells, rewards = np.full((size, repeats), -1, np.int64), np.full((size, repeats), np.nan)
    cells[at], rewards[at] = rows, columns.reward[rows]
    return {
        "total": len(indices),
        "tasks": indices[page].tolist(),
        "datasets": [columns.names[index] if index >= 0 else "" for index in datasets[page].tolist()],
        "repeats": repeats,
        "rewards": [[number(reward) for reward in line] for line in rewards.tolist()],
        "cells": [[None if n < 0 else n for n in line] for line in cells.tolist()],
    }
