"""Ratings: the Bradley-Terry model's truth, its intervals, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from gym_llm.stats.ratings import bradley_terry, scores_of, win_probability

TRUTH = {"a": 200.0, "b": 0.0, "c": -50.0, "d": -150.0}


def games(rng: np.random.Generator, each: int) -> list[tuple[str, str, float]]:
    names = list(TRUTH)
    pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
    return [
        (one, other, float(rng.random() < win_probability(TRUTH[one], TRUTH[other])))
        for one, other in pairs
        for _ in range(each)
    ]


def test_many_games_find_the_true_ratings() -> None:
    ratings = bradley_terry(games(np.random.default_rng(0), 5000))
    assert [rating.name for rating in ratings] == ["a", "b", "c", "d"]
    for rating in ratings:
        assert rating.value == pytest.approx(TRUTH[rating.name], abs=10)
    assert sum(rating.value for rating in ratings) == pytest.approx(0.0)


def test_the_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng, covered = np.random.default_rng(1), []
    for _ in range(200):
        covered += [one.low <= TRUTH[one.name] <= one.high for one in bradley_terry(games(rng, 40), prior=0.01)]
    assert 0.93 <= np.mean(covered) <= 0.97


def test_who_won_or_lost_everything_has_a_finite_rating() -> None:
    best, worst = bradley_terry([("a", "b", 1.0)] * 1000)
    assert 0 < best.value < 2000 and worst.value == -best.value and best.low < best.value < best.high


def test_draws_count_half() -> None:
    even = bradley_terry([("a", "b", 0.5)] * 10)
    assert [round(one.value, 9) for one in even] == [0.0, 0.0]
    assert bradley_terry([]) == []


def test_scores_of_a_game() -> None:
    assert scores_of([1.0, 1.0]) == [0.5, 0.5] and scores_of([3.0]) == [0.0]


@pytest.mark.parametrize("result", [("a", "a", 1.0), ("a", "b", 2.0), ("a", "b", float("nan"))])
def test_results_that_make_no_sense_are_refused(result: tuple[str, str, float]) -> None:
    with pytest.raises(ValueError, match="A result is two players"):
        bradley_terry([result])
    with pytest.raises(ValueError, match="prior"):
        bradley_terry([], prior=0.0)
