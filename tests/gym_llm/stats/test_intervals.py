"""Intervals, against scipy and against what they have to cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gym_llm.stats.intervals import estimates, interval, ratio, t_quantile, wilson


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 29, 299, 2999, 3001, 10**6])
def test_students_quantiles_are_scipys(degrees: int) -> None:
    for probability in (0.2, 0.6, 0.9, 0.975, 0.9995):
        expected = stats.t.ppf(probability, degrees)
        assert t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("solved", [0, 1, 17, 39, 40])
def test_right_or_wrong_tasks_have_wilsons_interval(solved: int) -> None:
    rewards = np.array([1.0] * solved + [0.0] * (40 - solved))
    expected = stats.binomtest(solved, 40).proportion_ci(method="wilson")
    assert interval(rewards, np.ones(40), bounded=True) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_unbounded_figures_have_students_interval() -> None:
    values = np.random.default_rng(0).normal(size=12)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert interval(values, np.ones(12)) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_repeats_of_a_task_are_one_observation() -> None:
    sums, counts = np.array([8.0, 0.0, 8.0, 4.0]), np.full(4, 8.0)
    value, error = ratio(sums, counts)
    means = sums / counts
    assert (value, error) == pytest.approx((means.mean(), stats.sem(means)), abs=1e-12)


def test_a_ratios_error_is_that_of_the_clustered_residuals() -> None:
    sums, counts = np.array([3.0, 0.0, 2.0]), np.array([4.0, 1.0, 2.0])
    value, error = ratio(sums, counts)
    residuals = sums - counts * 5 / 7
    assert value == pytest.approx(5 / 7)
    assert error == pytest.approx(math.sqrt(3 / 2 * (residuals**2).sum()) / 7, abs=1e-12)


def test_wilsons_interval_stays_in_its_bounds_and_has_a_width_at_the_ends() -> None:
    assert wilson(0.0, 5, 1.96)[0] == 0.0 and 0 < wilson(0.0, 5, 1.96)[1] < 1
    assert wilson(1.0, 5, 1.96)[1] == 1.0 and 0 < wilson(1.0, 5, 1.96)[0] < 1


def test_few_tasks_have_no_interval() -> None:
    (one,) = estimates(np.ones((1, 1)), np.ones((1, 1)), bounded=True)
    assert one.value == 1.0 and math.isnan(one.low) and math.isnan(one.bootstrap_high)
    (none,) = estimates(np.zeros((3, 1)), np.zeros((3, 1)))
    assert math.isnan(none.value) and none.tasks == 0


def test_sums_that_are_no_floats_have_no_interval() -> None:
    (huge,) = estimates(np.array([[1e308], [1e308]]), np.ones((2, 1)))
    assert huge.as_dict() == {
        "value": None, "standard_error": None, "interval": [None, None], "bootstrap": [None, None], "tasks": 2
    }  # fmt: skip


def test_the_bootstrap_repeats_itself_and_is_near_the_analytic_interval() -> None:
    rng = np.random.default_rng(1)
    values = rng.uniform(size=(400, 2))
    first, second = (estimates(values, np.ones_like(values), bounded=True, seed=5) for _ in range(2))
    assert first == second
    for each in first:
        assert (each.bootstrap_low, each.bootstrap_high) == pytest.approx((each.low, each.high), abs=0.004)


def test_the_bootstrap_of_a_few_kinds_of_tasks_is_that_of_the_tasks() -> None:
    """Tasks that are alike are drawn as a kind, which is how many of them are drawn."""
    solved = np.repeat([0.0, 1.0], 300)[:, None]
    nearly = solved + np.arange(600)[:, None] * 1e-12
    ones = np.ones_like(solved)
    (kinds,), (tasks,) = (estimates(each, ones, resamples=4000) for each in (solved, nearly))
    assert (kinds.bootstrap_low, kinds.bootstrap_high) == pytest.approx(
        (tasks.bootstrap_low, tasks.bootstrap_high), abs=0.01
    )
    (alike,) = estimates(ones, ones, bounded=True)
    assert (alike.bootstrap_low, alike.bootstrap_high) == (1.0, 1.0)


@pytest.mark.parametrize(("tasks", "repeats"), [(30, 8), (100, 4), (300, 1)])
def test_intervals_cover_the_truth_as_often_as_they_say(tasks: int, repeats: int) -> None:
    """A small, seeded form of `benchmarks/interval_coverage.py`: rates differ between tasks, and from run to run."""
    rng, covered, runs = np.random.default_rng(7), 0, 3000
    for _ in range(runs):
        mean = rng.uniform(0.1, 0.9)
        rates = rng.beta(2 * mean, 2 * (1 - mean), tasks)
        low, high = interval(rng.binomial(repeats, rates) / repeats, np.ones(tasks), bounded=True)
        covered += low <= mean <= high
    assert 0.94 <= covered / runs <= 0.96
