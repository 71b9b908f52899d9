"""NeMo Gym's figures of a set of episodes, by its names and definitions (`compute_pass_majority_metrics` of 0.7.0)."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.intervals import number
from gym_llm.stats.pass_at_k import MOST_VOTES


def nemo_gym_figures(scores: Sequence[EpisodeScore]) -> dict[str, Any]:
    """Return NeMo Gym's figures of the episodes that have a reward.

    All but `mean/reward` and its kin are percentages. They take rewards as they are, without a threshold.
    `pass@1[avg-of-k]` and `majority@k` are of the first k episodes of each task. `pass@k` is of any k where all of a
    task's values are 0 or 1, else the largest of the first k. Names that end in `/no_answer`, and the majority, are
    there if some episode has an answer. `per_sample_aggregate` has the mean over tasks of each repeat.
    """
    tasks: dict[tuple[str, int], list[EpisodeScore]] = defaultdict(list)
    for score in sorted(scores, key=lambda score: score.repeat_index):
        if score.reward is not None:
            tasks[score.task].append(score)
    if not tasks:
        return {}
    rewards = [[score.reward or 0.0 for score in task] for task in tasks.values()]
    answers = [[score.answer for score in task] for task in tasks.values()]
    flat = [reward for task in rewards for reward in task]
    figures: dict[str, Any] = {
        **{"mean/reward": _mean(flat), "max/reward": max(flat), "min/reward": min(flat)},
        "median/reward": statistics.median(flat),
    }
    columns = {"accuracy": rewards}
    if answered := any(answer is not None for task in answers for answer in task):
        columns["no_answer"] = [[float(answer is None) for answer in task] for task in answers]
    most = max(map(len, rewards))
    for name, values in columns.items():
        samples = [100 * _mean([task[n] for task in values if n < len(task)]) for n in range(most)]
        figures.setdefault("per_sample_aggregate", {})[name] = [number(sample) for sample in samples]
        for k in range(1, most + 1):
            figures[f"pass@{k}/{name}"] = 100 * _mean([_pass(task, k) for task in values if k <= len(task)])
            figures[f"pass@1[avg-of-{k}]/{name}"] = 100 * _mean([_mean(task[:k]) for task in values])
            if answered and most <= MOST_VOTES:
                figures[f"majority@{k}/{name}"] = 100 * _mean(
                    [_majority(said[:k], task[:k]) for said, task in zip(answers, values, strict=True)]
                )
            if k > 1:
                with np.errstate(over="ignore", invalid="ignore"):  # of rewards such as 1e308
                    deviation = float(np.std(samples[:k], ddof=1))
                figures[f"pass@1[avg-of-{k}]/{name}/std_dev_across_runs"] = deviation
                figures[f"pass@1[avg-of-{k}]/{name}/std_err_across_runs"] = deviation / math.sqrt(k)
    return {name: number(value) if isinstance(value, float) else value for name, value in figures.items()}


def _pass(values: list[float], k: int) -> float:
    if any(value not in (0, 1) for value in values):
        return max(values[:k])
    return 1.0 - math.comb(values.count(0), k) / math.comb(len(values), k)


def _majority(answers: list[str | None], values: list[float]) -> float:
    """The value of the most frequent answer; the mean of those that tie, 0 without an answer."""
    counts = Counter(pair for pair in zip(answers, values, strict=True) if pair[0] is not None)
    most = max(counts.values(), default=0)
    return _mean([value for (_, value), count in counts.items() if count == most] or [0.0])


def _mean(values: list[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # of rewards such as 1e308
        return math.nan
