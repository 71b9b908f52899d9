"""How alike two texts are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from difflib import SequenceMatcher

import pytest
from testing import cpu_seconds

from gym_llm.grading.text_metrics import (
    edit_distance,
    longest_common_substring,
    normalize_answer,
    quick_ratio,
    ratio,
    sequence_ratio,
    set_f1,
    token_f1,
)


def pairs(alphabet: str, longest: int, count: int) -> Iterator[tuple[str, str]]:
    rng = random.Random(5)
    for _ in range(count):
        first, second = ("".join(rng.choices(alphabet, k=rng.randint(0, longest))) for _ in range(2))
        yield first, second


def test_answers_are_normalised_as_squad_does() -> None:
    assert normalize_answer(" An Apple-pie, the\tbest! ") == "applepie best"
    assert normalize_answer("Theatre a") == "theatre"


@pytest.mark.parametrize(
    ("answer", "expected", "f1"),
    [("a b", "a b", 1.0), ("a a", "a", 2 / 3), ("a", "b", 0.0), ("", "", 0.0), ("no", "yes", 0.0), ("yes", "yes", 1.0),
     ("yes it is", "yes", 0.0), ("no", "no one", 0.0)],
)  # fmt: skip
def test_f1_of_tokens(answer: str, expected: str, f1: float) -> None:
    assert token_f1(answer, expected) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("predicted", "expected", "f1"),
    [("ab", "bc", 0.5), ("", "", 1.0), ("a", "", 0.0), ("", "a", 0.0), ("aab", "ab", 1)],
)
def test_f1_of_sets(predicted: str, expected: str, f1: float) -> None:
    assert set_f1(predicted, expected) == f1


def test_edit_distance_is_that_of_the_whole_table() -> None:
    for first, second in pairs("abc", 25, 300):
        row = list(range(len(second) + 1))
        for i, x in enumerate(first):
            corner, row[0] = row[0], i + 1
            for j, y in enumerate(second):
                corner, row[j + 1] = row[j + 1], min(row[j + 1] + 1, row[j] + 1, corner + (x != y))
        assert edit_distance(first, second) == row[-1]


def test_the_longest_common_substring_is_difflibs() -> None:
    for first, second in [*pairs("ab", 30, 300), *pairs("abcdefgh\ud800🜁", 60, 100), ("a" * 40, "a" * 33), ("x", "")]:
        match = SequenceMatcher(None, first, second, autojunk=False).find_longest_match()
        assert longest_common_substring(first, second) == match.size


def test_ratios_are_difflibs_also_of_long_texts() -> None:
    async def check() -> None:
        for first, second in pairs("abcdefghij klmno", 500, 30):
            assert await sequence_ratio(first, second) == SequenceMatcher(None, first, second).ratio()

    asyncio.run(check())
    assert quick_ratio("a" * 100_000, "a" * 100_000) == 1.0 and quick_ratio("ab" * 500, "ba" * 500) is None


@pytest.mark.parametrize(("alphabet", "longest"), [("ab", 8), ("abc ", 60), ("abcdefgh é\ud800", 120), ("abcd", 260)])
def test_ratios_of_short_texts_are_difflibs(alphabet: str, longest: int) -> None:
    for first, second in pairs(alphabet, longest, 200):
        edited = first[: len(first) // 2] + "é" + first[len(first) // 2 + 1 :]
        for other in (second, edited):
            assert ratio((first, other)) == SequenceMatcher(None, first, other).ratio()


def test_a_ratio_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_llm.grading.text_metrics.RATIO_DEADLINE", 0.2)
    letters = [chr(300 + n) for n in range(150)]  # none so frequent that difflib leaves it out
    first, second = ("".join(random.Random(seed).choices(letters, k=20_000)) for seed in (1, 2))
    assert asyncio.run(sequence_ratio(first, second)) is None


def test_long_texts_take_near_linear_time() -> None:
    words = ["word", "other"] * 2_000
    assert cpu_seconds(edit_distance, words, words[::-1]) < 2.0
    assert cpu_seconds(longest_common_substring, "ab" * 100_000, "ba" * 100_000) < 5.0
    assert cpu_seconds(quick_ratio, "ab" * 20_000, "b") < 1.0
    assert cpu_seconds(normalize_answer, "a the " * 150_000) < 3.0
