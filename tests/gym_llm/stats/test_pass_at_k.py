"""What k of n answers come to, against all subsets of k."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import pytest

from gym_llm.stats.pass_at_k import best_of, majority_at, pass_all, pass_at


def over_subsets(items: list, k: int, value) -> float:  # type: ignore[no-untyped-def]
    """The mean of a value over all subsets of k, exactly."""
    subsets = list(itertools.combinations(items, k))
    return float(sum(Fraction(value(subset)) for subset in subsets) / len(subsets))


def majority(subset: tuple[tuple[str | None, bool], ...]) -> Fraction:
    """How right the answers are that lead a subset: each leader as likely, each of its givers as likely."""
    votes = Counter(answer for answer, _ in subset if answer is not None)
    leaders = [answer for answer in votes if votes[answer] == max(votes.values())]
    shares = [Fraction(sum(right for answer, right in subset if answer == leader), votes[leader]) for leader in leaders]
    return sum(shares, Fraction()) / len(leaders) if leaders else Fraction()


@pytest.mark.parametrize("seed", range(40))
def test_majority_agrees_with_the_enumeration_of_all_subsets(seed: int) -> None:
    rng = random.Random(seed)
    letters = [None, *"abcdef"[: rng.randint(1, 6)]]
    answers = [(rng.choice(letters), rng.random() < 0.5) for _ in range(rng.randint(1, 9))]
    for k, chance in enumerate(majority_at(answers), 1):
        assert chance == pytest.approx(over_subsets(answers, k, majority), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_best_of_agrees_with_the_enumeration_of_all_subsets(seed: int) -> None:
    rng = random.Random(seed)
    answers = [(rng.choice([-3.0, -2.0, -1.5, -1.0]), rng.choice([0.0, 0.25, 1.0])) for _ in range(rng.randint(1, 8))]

    def best(subset: tuple[tuple[float, float], ...]) -> Fraction:
        leaders = [Fraction(value) for key, value in subset if key == max(subset)[0]]
        return sum(leaders, Fraction()) / len(leaders)

    for k, value in enumerate(best_of(*zip(*answers, strict=True)), 1):  # type: ignore[arg-type]
        assert value == pytest.approx(over_subsets(answers, k, best), abs=1e-12)


@pytest.mark.parametrize("samples", range(1, 9))
def test_pass_at_k_and_pass_all_k_agree_with_the_enumeration_of_all_subsets(samples: int) -> None:
    for solved in range(samples + 1):
        answers = [index < solved for index in range(samples)]
        for k in range(1, samples + 1):
            assert pass_at(samples, solved)[k - 1] == pytest.approx(over_subsets(answers, k, any), abs=1e-12)
            assert pass_all(samples, solved)[k - 1] == pytest.approx(over_subsets(answers, k, all), abs=1e-12)


def test_no_answer_never_wins() -> None:
    assert majority_at([(None, True)] * 5) == (0.0,) * 5
    assert majority_at([(None, False)] * 4 + [("4", True)])[-1] == 1.0


def test_majority_of_one_is_the_mean_and_of_many_stays_exact() -> None:
    rng = random.Random(3)
    answers = [(str(rng.randrange(12)), rng.random() < 0.4) for _ in range(200)]
    assert majority_at(answers)[0] == pytest.approx(sum(right for _, right in answers) / 200, abs=1e-12)
    two = majority_at([("a", True)] * 150 + [("b", False)] * 100)
    odd, count = 51, math.comb(250, 51)
    expected = sum(math.comb(150, a) * math.comb(100, odd - a) for a in range(26, odd + 1)) / count
    assert two[odd - 1] == pytest.approx(expected, abs=1e-12)


def test_more_answers_than_votes_can_be_counted_for_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 1,000 answers"):
        majority_at([("a", True)] * 1001)


def test_chances_of_ranks_among_many_answers_are_exact() -> None:
    samples = 200
    values = [float(rank == 150) for rank in range(samples)]
    expected = [math.comb(150, k - 1) / math.comb(samples, k) for k in range(1, samples + 1)]
    assert best_of(list(range(samples)), values) == pytest.approx(expected, rel=1e-12, abs=1e-300)
