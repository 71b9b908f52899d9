"""The sign-flip test, against all choices of signs and against scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from gym_llm.stats import sign_flip as module
from gym_llm.stats.sign_flip import sign_flip


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_all_choices_of_signs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    right_or_wrong, repeats, any_number = (
        rng.integers(-1, 2, count),
        rng.integers(-8, 9, count) / 8,
        rng.normal(size=count),
    )
    for differences in (right_or_wrong.astype(float), repeats, any_number):
        sums = [np.dot(signs, differences) for signs in itertools.product((-1, 1), repeat=count)]
        expected = np.mean(np.abs(sums) >= abs(differences.sum()) - 1e-12)
        test = sign_flip(differences)
        assert (test.method, test.samples) == ("exact", 0)
        assert test.p_value == pytest.approx(expected, abs=1e-9)


def test_it_agrees_with_scipys_permutation_test() -> None:
    differences = np.random.default_rng(3).normal(0.4, 1, size=12)
    expected = stats.permutation_test(
        (differences,), lambda x: float(np.sum(x)), permutation_type="samples", vectorized=False, n_resamples=np.inf
    )  # fmt: skip
    assert sign_flip(differences).p_value == pytest.approx(expected.pvalue, abs=1e-9)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (7, 0), (30, 18), (400, 330)])
def test_of_right_and_wrong_it_is_mcnemars(gained: int, lost: int) -> None:
    differences = np.array([1.0] * gained + [-1.0] * lost + [0.0] * 50)
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert sign_flip(differences).p_value == pytest.approx(expected, abs=1e-9)


def test_what_is_on_no_lattice_is_counted_in_halves() -> None:
    differences = np.random.default_rng(0).normal(0.3, 1, size=18)
    sums = np.array([0.0])
    for size in np.abs(differences):
        sums = np.concatenate((sums - size, sums + size))
    expected = np.mean(np.abs(sums) >= abs(differences.sum()) * (1 - 1e-12))
    assert sign_flip(differences).p_value == pytest.approx(expected, abs=1e-9)


def test_too_many_to_count_are_sampled_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLES", 100_000)
    rng = np.random.default_rng(1)
    lattice = rng.integers(-8, 10, 101) / 8
    exact = sign_flip(lattice)
    noise = rng.normal(size=101) * 1e-9  # off the lattice, and hardly anywhere else
    sampled = sign_flip(lattice + noise, seed=5)
    assert (sampled.method, sampled.samples) == ("sampled", 100_000)
    assert sampled == sign_flip(lattice + noise, seed=5)
    assert sampled.p_value == pytest.approx(exact.p_value, abs=0.02)
