"""ROUGE of a text and a reference."""

from __future__ import annotations

import random

import pytest
from testing import cpu_seconds

from gym_llm.grading.rouge import Reference, common_subsequence, rouge_words


def test_the_longest_common_subsequence_is_that_of_the_whole_table() -> None:
    rng = random.Random(5)
    for _ in range(300):
        first, second = ("".join(rng.choices("abc", k=rng.randint(0, 25))) for _ in range(2))
        row = [0] * (len(second) + 1)
        for x in first:
            corner = 0
            for j, y in enumerate(second):
                corner, row[j + 1] = row[j + 1], corner + 1 if x == y else max(row[j + 1], row[j])
        assert common_subsequence(first, second) == row[-1]


@pytest.mark.parametrize(
    ("text", "reference", "one", "two", "longest"),
    [
        ("The cat, the CAT!", "the cat", 2 / 3, 0.5, 2 / 3),
        ("cat the", "the cat", 1.0, 0.0, 0.5),
        ("a b c d", "a x c y", 0.5, 0.0, 0.5),
        ("", "a", 0.0, 0.0, 0.0),
        ("é", "", 0.0, 0.0, 0.0),
    ],
)
def test_rouge(text: str, reference: str, one: float, two: float, longest: float) -> None:
    words, wanted = rouge_words(text), Reference(rouge_words(reference))
    assert wanted.rouge_1(words) == pytest.approx(one)
    assert wanted.rouge_2(words) == pytest.approx(two)
    assert wanted.rouge_l(words) == pytest.approx(longest)


def test_a_long_text_takes_linear_time() -> None:
    assert cpu_seconds(Reference(["b", "c"] * 100).rouge_l, ["a", "b"] * 50_000) < 2.0
