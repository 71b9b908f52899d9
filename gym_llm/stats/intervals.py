"""Confidence intervals for figures over tasks: clustered by task, analytic and by bootstrap.

Every figure here is a ratio of two sums over tasks, `sum(numerators) / sum(denominators)`. For the mean reward these
are a task's sum of rewards and their number, for pass@k the task's own pass@k and 1. A task's repeats are not
independent. The task is therefore the unit of the standard error, of the degrees of freedom (T - 1) and of the
bootstrap. The standard error follows Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640, section 2.2, with the
usual correction T / (T - 1) for few tasks.

A figure in [0, 1] has Wilson's score interval (1927). The number of trials is the one that would give the clustered
standard error, `p (1 - p) / se**2`, and Student's quantile replaces the normal one. The interval stays in [0, 1] and
has a width at 0 and at 1, where the tasks are the trials. If each task is right or wrong, it is Wilson's own. Other
figures have `± t se`. `benchmarks/interval_coverage.py` measures how often these intervals cover the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 2000
_CHUNK = 4_000_000  # resampled tasks at once: 32 MB


@dataclass(slots=True, frozen=True)
class Estimate:
    """A figure and its uncertainty; NaN where it cannot be computed.

    Attributes:
        value: The figure.
        standard_error: Standard error, clustered by task.
        low: Lower end of the analytic interval.
        high: Upper end of the analytic interval.
        bootstrap_low: Lower end of the cluster bootstrap's interval.
        bootstrap_high: Upper end of the cluster bootstrap's interval.
        tasks: Number of tasks.
    """

    value: float
    standard_error: float
    low: float
    high: float
    bootstrap_low: float
    bootstrap_high: float
    tasks: int

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values, NaN as None."""
        return {
            "value": number(self.value),
            "standard_error": number(self.standard_error),
            "interval": [number(self.low), number(self.high)],
            "bootstrap": [number(self.bootstrap_low), number(self.bootstrap_high)],
            "tasks": self.tasks,
        }


def number(value: float | None) -> float | None:
    """Return a number as a JSON value: None unless it is finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def estimates(
    numerators: Floats,
    denominators: Floats,
    *,
    bounded: NDArray[np.bool_] | bool = False,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[Estimate]:
    """Estimate several figures of one set of tasks, each a ratio of two sums over the tasks.

    Args:
        numerators: A row for each task, a column for each figure.
        denominators: The same shape; 0 where a task does not count for a figure (its numerator is 0, too).
        bounded: Whether a figure lies in [0, 1] for every task; one for all, or one for each.
        level: The confidence level.
        seed: The seed of the bootstrap, which draws the same tasks for all figures.
        resamples: The number of bootstrap resamples; 0 for none.

    Returns:
        One estimate for each column.
    """
    columns = numerators.shape[1]
    bounds = np.broadcast_to(np.asarray(bounded), (columns,))
    lows, highs = _bootstrap(numerators, denominators, level, seed, resamples)
    result = []
    for column in range(columns):
        counted = denominators[:, column] > 0
        top, bottom = numerators[counted, column], denominators[counted, column]
        value, error = ratio(top, bottom)
        low, high = interval(top, bottom, bounded=bool(bounds[column]), level=level)
        result.append(Estimate(value, error, low, high, lows[column], highs[column], int(counted.sum())))
    return result


def ratio(numerators: Floats, denominators: Floats) -> tuple[float, float]:
    """Return the ratio of two sums over tasks and its clustered standard error; NaN for too few tasks."""
    tasks, total = len(numerators), float(denominators.sum())
    if not tasks or not total:
        return math.nan, math.nan
    with np.errstate(over="ignore", invalid="ignore"):  # of rewards such as 1e200
        value = float(numerators.sum()) / total
        if tasks < 2:
            return value, math.nan
        squares = float(((numerators - denominators * value) ** 2).sum())
    return value, clustered_error(squares, tasks, total) if math.isfinite(squares) else math.nan


def clustered_error(squares: float, clusters: int, total: float) -> float:
    """Return the clustered standard error of a ratio of two sums over clusters (the module's docstring has the source).

    Args:
        squares: The sum over clusters of `(numerator - denominator * ratio) ** 2`.
        clusters: The number of clusters, 2 or more.
        total: The sum of the denominators.
    """
    return math.sqrt(clusters / (clusters - 1) * squares) / total


def interval(
    numerators: Floats, denominators: Floats, *, bounded: bool = False, level: float = LEVEL
) -> tuple[float, float]:
    """Return the analytic confidence interval of the ratio of two sums over tasks; NaN for fewer than two tasks.

    >>> low, high = interval(np.zeros(20), np.ones(20), bounded=True)  # 0 of 20: Wilson's
    >>> round(low, 4), round(high, 4)
    (0.0, 0.1611)
    """
    value, error = ratio(numerators, denominators)
    tasks = len(numerators)
    if math.isnan(error):
        return math.nan, math.nan
    if not bounded:
        half = t_quantile(0.5 + level / 2, tasks - 1) * error
        return value - half, value + half
    rates = numerators / denominators
    is_simple = np.ptp(denominators) == 0 and np.isin(rates, (0.0, 1.0)).all()
    trials = tasks if is_simple or not (error**2) else value * (1 - value) / error**2
    normal = NormalDist().inv_cdf(0.5 + level / 2)
    return wilson(value, trials, normal if is_simple else t_quantile(0.5 + level / 2, tasks - 1))


def wilson(value: float, trials: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's score interval for a share of n trials."""
    square = quantile * quantile
    centre = (value + square / (2 * trials)) / (1 + square / trials)
    spread = max(0.0, value * (1 - value)) / trials + square / (4 * trials * trials)
    half = quantile / (1 + square / trials) * math.sqrt(spread)
    return (0.0 if value <= 0 else max(0.0, centre - half)), (1.0 if value >= 1 else min(1.0, centre + half))


def _bootstrap(
    numerators: Floats, denominators: Floats, level: float, seed: int, resamples: int
) -> tuple[Floats, Floats]:
    """Percentiles over tasks drawn with replacement.

    A percentile interval of few tasks is too narrow, by what the sample's variance lacks (T / (T - 1)) and what the
    normal quantile lacks to Student's; so its percentiles are further out (Hesterberg 2015, "What Teachers Should Know
    about the Bootstrap", The American Statistician 69, section 4.6).
    """
    tasks, columns = numerators.shape
    if tasks < 2 or not resamples:
        return np.full(columns, math.nan), np.full(columns, math.nan)
    generator = np.random.default_rng(seed)
    values = np.empty((resamples, columns))
    counted = np.count_nonzero(denominators, axis=0)
    rows, counts = np.unique(np.concatenate((numerators, denominators), axis=1), axis=0, return_counts=True)
    if few := 4 * len(rows) < tasks:  # kinds of tasks: how often each kind is drawn is all that matters
        numerators, denominators = rows[:, :columns], rows[:, columns:]
    step = max(1, _CHUNK // len(numerators))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        if few:
            weights = generator.multinomial(tasks, counts / tasks, size=size).astype(np.float64)
        else:
            drawn = generator.integers(tasks, size=(size, tasks), dtype=np.int32) + tasks * np.arange(size)[:, None]
            weights = np.bincount(drawn.ravel(), minlength=size * tasks).reshape(size, tasks).astype(np.float64)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            values[start : start + size] = (weights @ numerators) / (weights @ denominators)
    beyond = math.sqrt(tasks / (tasks - 1)) * t_quantile(0.5 + level / 2, tasks - 1)
    share = NormalDist().cdf(-beyond)
    lows, highs = np.full(columns, math.nan), np.full(columns, math.nan)
    for column in range(columns):
        drawn_values = values[np.isfinite(values[:, column]), column]
        if len(drawn_values) and counted[column] > 1:
            lows[column], highs[column] = np.quantile(drawn_values, (share, 1 - share))
    return lows, highs


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t distribution, to about 1e-12; `probability` in (0, 1).

    >>> round(t_quantile(0.975, 10), 6)
    2.228139
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    normal = NormalDist().inv_cdf(probability)
    if degrees > 3000:  # Abramowitz and Stegun 26.7.5: what is left out is below 1e-14
        z = normal
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        )
        return z + math.fsum(term / degrees**power for power, term in enumerate(terms, 1))
    low, high = normal, 2 * normal + 1
    while t_tail(high, degrees) > 1 - probability:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_tail(middle, degrees) > 1 - probability else (low, middle)
    return (low + high) / 2


def t_tail(value: float, degrees: float) -> float:
    """Return the chance that Student's t exceeds a value of 0 or more."""
    return 0.5 * _beta(degrees / 2, 0.5, degrees / (degrees + value * value))


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz's method; DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny, c = 1e-300, 1.0
    d = 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    result = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            result *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return front * result
