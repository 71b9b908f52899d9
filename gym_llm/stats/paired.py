"""The differences of the tasks that two runs played: their mean, whether it is chance, which tasks, how many it takes.

A task's difference is the mean reward of its episodes in one run less that in the other. The difficulty of a task
affects both runs and cancels in the difference. An interval for the mean difference is therefore much narrower than the
two runs' own intervals.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.intervals import LEVEL, RESAMPLES, Estimate, Floats, estimates, interval, number
from gym_llm.stats.run_summary import PASS_THRESHOLD
from gym_llm.stats.sign_flip import SignFlip, sign_flip

POWER = 0.8
"""The chance to see a difference that there is, for which `tasks_needed` is computed."""

Part: TypeAlias = tuple[str, str]
"""Environment and dataset: what tasks are numbered in. Both are "" where a run has only one."""
TaskKey: TypeAlias = tuple[Part, int]

_TOO_LARGE = "rewards are so large that floats cannot hold their differences"
_NOTHING = 1e-12  # what the difference of two means of the same rewards may come to


@dataclass(slots=True, frozen=True)
class Flip:
    """A task that is solved in one run and not in the other: at least half of its episodes pass, or fewer."""

    part: Part
    task_index: int
    pass_rate_before: float
    pass_rate_after: float

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "env_id": self.part[0],
            "dataset": self.part[1],
            "task_index": self.task_index,
            "baseline": self.pass_rate_before,
            "run": self.pass_rate_after,
        }


@dataclass(slots=True)
class Paired:
    """The difference of two runs over their common tasks, the run's figures minus the baseline's.

    Attributes:
        baseline: Its name.
        run: The other's name.
        tasks: The tasks that have a reward in both.
        differences: Of each task.
        difference: Their mean, with intervals clustered by task.
        test: Whether they might as well have the other sign.
        gained: Tasks that are solved in the run only.
        lost: Tasks that are solved in the baseline only.
        only_in_baseline: How many tasks have a reward in the baseline only.
        only_in_run: How many tasks have a reward in the run only.
        parts: The mean difference of each part, where there are several.
        level: Of confidence.
        p_value_holm: The p-value, where several runs are compared with one baseline (Holm 1979); else `test`'s.
    """

    baseline: str
    run: str
    tasks: list[TaskKey]
    differences: Floats
    difference: Estimate
    test: SignFlip
    gained: list[Flip]
    lost: list[Flip]
    only_in_baseline: int
    only_in_run: int
    parts: dict[Part, Estimate]
    level: float
    p_value_holm: float

    @property
    def deviation(self) -> float:
        """The standard deviation of the tasks' differences; NaN for fewer than two tasks."""
        return float(self.differences.std(ddof=1)) if len(self.differences) > 1 else math.nan

    @property
    def better(self) -> int:
        """The number of tasks with a higher mean reward than in the baseline."""
        return int((self.differences > 0).sum())

    @property
    def worse(self) -> int:
        """The number of tasks with a lower mean reward than in the baseline."""
        return int((self.differences < 0).sum())

    def tasks_needed(self, difference: float, *, power: float = POWER) -> int | None:
        """Return the number of such tasks needed to see a difference; None if the tasks' variance is unknown."""
        if not self.deviation > 0:
            return None
        return math.ceil((_quantiles(self.level, power) * self.deviation / difference) ** 2)

    def detectable(self, *, power: float = POWER) -> float | None:
        """Return the smallest difference that n tasks show; None if the tasks' variance is unknown."""
        if not self.deviation > 0:
            return None
        return _quantiles(self.level, power) * self.deviation / math.sqrt(len(self.tasks))

    def as_dict(self, *, detect: float) -> dict[str, Any]:
        """JSON values, NaN as None; `detect` is the difference that `power` is about."""
        return {
            "baseline": self.baseline,
            "run": self.run,
            "tasks": len(self.tasks),
            "only_in_baseline": self.only_in_baseline,
            "only_in_run": self.only_in_run,
            "difference": self.difference.as_dict(),
            "p_value": self.test.p_value,
            "p_value_holm": self.p_value_holm,
            "p_method": self.test.method,
            "p_samples": self.test.samples,
            "better": self.better,
            "worse": self.worse,
            "equal": len(self.tasks) - self.better - self.worse,
            "gained": [flip.as_dict() for flip in self.gained],
            "lost": [flip.as_dict() for flip in self.lost],
            "power": {
                "power": POWER,
                "detect": detect,
                "tasks_needed": self.tasks_needed(detect),
                "detectable": number(self.detectable()),
            },
            "parts": {part_name(part): estimate.as_dict() for part, estimate in self.parts.items()},
        }


def part_name(part: Part) -> str:
    """Return the name of a part in a report: its dataset, or its environment."""
    return part[1] or part[0]


def pair(
    before: Mapping[TaskKey, Sequence[EpisodeScore]],
    after: Mapping[TaskKey, Sequence[EpisodeScore]],
    names: tuple[str, str],
    *,
    pass_threshold: float = PASS_THRESHOLD,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Paired:
    """Compare the tasks of two runs.

    Args:
        before: The baseline's episodes that have a reward, by task.
        after: The other's.
        names: Of the two.
        pass_threshold: The reward from which on an episode passes.
        level: Of confidence.
        seed: Of the bootstrap, and of the sign-flip test where it has to draw.
        resamples: Of the bootstrap.

    Raises:
        ValueError: If they have no task in common, or rewards that are too large to subtract.
    """
    tasks = sorted(before.keys() & after.keys())
    if not tasks:
        raise ValueError("the runs have no task in common")
    rewards, rates = [], []
    for run in (before, after):
        found = [[score.reward or 0.0 for score in run[task]] for task in tasks]
        try:
            rewards.append(np.array([math.fsum(row) / len(row) for row in found]))
        except OverflowError:
            raise ValueError(_TOO_LARGE) from None
        rates.append([sum(reward >= pass_threshold for reward in row) / len(row) for row in found])
    with np.errstate(over="ignore", invalid="ignore"):
        differences = rewards[1] - rewards[0]
        if not np.isfinite(np.square(differences).sum()):
            raise ValueError(_TOO_LARGE)
    differences[np.abs(differences) < _NOTHING] = 0.0
    bounded = all(each.min() >= 0 and each.max() <= 1 for each in rewards)
    flips = [
        Flip(part, index, old, new)
        for (part, index), old, new in zip(tasks, *rates, strict=True)
        if (old >= 0.5) != (new >= 0.5)
    ]
    places: dict[Part, list[int]] = defaultdict(list)
    for place, (part, _) in enumerate(tasks):
        places[part].append(place)
    options: dict[str, Any] = {"level": level, "seed": seed, "resamples": resamples}
    parts = {part: _mean_difference(differences[mine], bounded, options) for part, mine in places.items()}
    test = sign_flip(differences, seed=seed)
    return Paired(
        *names,
        tasks=tasks,
        differences=differences,
        difference=_mean_difference(differences, bounded, options),
        test=test,
        gained=[flip for flip in flips if flip.pass_rate_after >= 0.5],
        lost=[flip for flip in flips if flip.pass_rate_before >= 0.5],
        only_in_baseline=len(before) - len(tasks),
        only_in_run=len(after) - len(tasks),
        parts=parts if len(parts) > 1 else {},
        level=level,
        p_value_holm=test.p_value,
    )


def _mean_difference(differences: Floats, bounded: bool, options: dict[str, Any]) -> Estimate:
    """The mean difference and its interval.

    Where all tasks differ by the same, mostly by nothing, a standard error says nothing: two more tasks, one that the
    run gained and one that it lost, give it a width (Bonett and Price 2012, "Adjusted Wald Confidence Interval for a
    Difference of Binomial Proportions Based on Paired Data").
    """
    (estimate,) = estimates(differences[:, None], np.ones((len(differences), 1)), **options)
    if not bounded or math.isnan(estimate.low):
        return estimate
    low, high = estimate.low, estimate.high
    if not estimate.standard_error:
        padded = np.concatenate((differences, (1.0, -1.0)))
        low, high = interval(padded, np.ones(len(padded)), level=options["level"])
    return Estimate(
        estimate.value,
        estimate.standard_error,
        max(-1.0, min(low, estimate.value)),
        min(1.0, max(high, estimate.value)),
        estimate.bootstrap_low,
        estimate.bootstrap_high,
        estimate.tasks,
    )


def _quantiles(level: float, power: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2) + NormalDist().inv_cdf(power)
