"""Descriptive statistics of columns of numbers, under the names that NeMo Gym's aggregates use."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gym_llm.stats.intervals import t_quantile

Statistic: TypeAlias = Callable[[Any], float | None]


def describe_columns(rows: Sequence[Mapping[str, float]], statistics: Mapping[str, Statistic]) -> dict[str, float]:
    """Return `STATISTIC/COLUMN` of every column of numbers; figures that are not finite are left out.

    >>> describe_columns([{"reward": 1.0}, {"reward": 0.0}], {"mean": np.mean})
    {'mean/reward': 0.5}
    """
    columns: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            columns[name].append(value)
    described = {}
    with np.errstate(over="ignore", invalid="ignore"):  # of rewards such as 1e308
        for name, values in columns.items():
            array = np.array(values)
            for statistic, function in statistics.items():
                if (figure := function(array)) is not None and math.isfinite(figure):
                    described[f"{statistic}/{name}"] = float(figure)
    return described


def _std(values: Any) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _bound(sign: int) -> Callable[[Any], float | None]:
    def bound(values: Any) -> float | None:
        if len(values) < 2:
            return None
        half = t_quantile(0.975, len(values) - 1) * _std(values) / math.sqrt(len(values))
        return float(values.mean() + sign * half)

    return bound


STATISTICS: dict[str, Statistic] = {
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "median": np.median,
    "std": _std,
}
"""Statistics of a whole population of numbers, by name."""
SAMPLE_STATISTICS: dict[str, Statistic] = {
    **STATISTICS,
    "sem": lambda values: _std(values) / math.sqrt(len(values)),
    "p25": lambda values: np.quantile(values, 0.25),
    "p75": lambda values: np.quantile(values, 0.75),
    "ci_low_95": _bound(-1),
    "ci_high_95": _bound(1),
}
"""Also those of a sample: its standard error, quartiles and Student's interval of the mean."""
