"""Pairs of a group's answers, and the rewards that their comparisons come to."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

Strategy: TypeAlias = Literal["circular", "all_pairs"]

_MIDDLE = 3.5
"""Of the ranking: below, the first answer is better."""
_CODE = re.compile(r"```[\s\S]*?```")
_STYLE = (
    re.compile(r"^#{1,6}\s", re.MULTILINE),  # headers
    re.compile(r"^[^\S\n]*\d+\.\s", re.MULTILINE),  # numbered items
    re.compile(r"^[^\S\n]*[-*+]\s", re.MULTILINE),  # other items
    re.compile(r"\*\*[^*\n]+\*\*"),
    re.compile(r"__[^_\n]+__"),
)
_EMOJI = "\U0001f1e0-\U0001f1ff\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff\U0001fa00-\U0001faff"
_EMOJIS = re.compile(f"[{_EMOJI}\u2600-\u27bf\u24c2\U0001f170-\U0001f251]")
_NEMO_EMOJIS = re.compile(f"[{_EMOJI}\u24c2-\U0001f251\u2600-\u27bf]")  # with all letters of Chinese and Japanese


class Comparison(NamedTuple):
    """A judge's scores of two answers, by their places in the group."""

    first: int
    second: int
    judge: int
    score_1: float
    score_2: float
    ranking: float

    @property
    def is_tie(self) -> bool:
        """Whether the ranking decides."""
        return self.score_1 == self.score_2

    @property
    def points(self) -> tuple[float, float]:
        """The points of the two answers: their scores; of a tie also the ranking's distance from the middle."""
        edge = _MIDDLE - self.ranking if self.is_tie else 0.0
        return self.score_1 + edge, self.score_2 - edge


class Lengths(NamedTuple):
    """Characters of an answer and of its reasoning, and how many marks of style there are per character."""

    reasoning: int
    answer: int
    style: float


class Weights(NamedTuple):
    """The weights of length and style; 0.0 for nothing. See `GenRMCompare`."""

    reasoning_bonus: float
    answer_bonus: float
    top_percentile: float
    reasoning_length: float
    answer_length: float
    style: float


def pairs(strategy: Strategy, count: int) -> list[tuple[int, int]]:
    """Return which answers are compared.

    >>> pairs("circular", 3), pairs("all_pairs", 3)
    ([(0, 1), (1, 2), (2, 0)], [(0, 1), (0, 2), (1, 2)])
    """
    if strategy == "all_pairs":
        return list(itertools.combinations(range(count), 2))
    return [(place, (place + 1) % count) for place in range(count)]


def base_scores(comparisons: Sequence[Comparison], count: int, default: float) -> list[float]:
    """Return the mean of what its comparisons gave each answer; `default` for an answer without any."""
    sums, counts = [0.0] * count, [0] * count
    for comparison in comparisons:
        for place, points in zip(comparison[:2], comparison.points, strict=True):
            sums[place] += points
            counts[place] += 1
    return [total / number if number else default for total, number in zip(sums, counts, strict=True)]


def with_bonuses(scores: Sequence[float], lengths: Sequence[Lengths], weights: Weights) -> list[float]:
    """Return the scores with what length and style add to them.

    The shortest reasoning that is not empty gets a bonus if its score is among the top. So does the shortest answer.
    The other weights favour the short and the plain. They go from 1 for the least to 0 for the most of the group, and
    are shifted so that their mean is 0.

    Args:
        scores: Before.
        lengths: Of each answer.
        weights: By what they count.
    """
    now = list(scores)
    threshold = sorted(scores, reverse=True)[max(0, int(len(scores) * weights.top_percentile) - 1)]
    kinds = ([each.reasoning for each in lengths], [each.answer for each in lengths])
    for bonus, of_kind in zip(weights[:2], kinds, strict=True):
        shortest = min((place for place in range(len(now)) if of_kind[place]), key=of_kind.__getitem__, default=None)
        if bonus > 0 and shortest is not None and now[shortest] >= threshold:
            now[shortest] += bonus
    by_length = [
        reasoning * weights.reasoning_length + answer * weights.answer_length
        for reasoning, answer in zip(*map(_centred, kinds), strict=True)
    ]
    by_style = [each * weights.style for each in _centred([each.style for each in lengths])]
    return [score + length + style for score, length, style in zip(now, by_length, by_style, strict=True)]


def style_density(text: str, *, conform: bool = False) -> float:
    """Return headers, list items, bold texts and emojis per character, outside of code blocks; 0.0 without text.

    Source: Arena-Hard's style control, with emojis. With `conform` letters such as those of Chinese are emojis.

    >>> style_density("**a** b"), style_density("")
    (0.14285714285714285, 0.0)
    """
    text = _CODE.sub("", text)
    if not (length := len(text.strip())):
        return 0.0
    marks = sum(len(each.findall(text)) for each in (*_STYLE, _NEMO_EMOJIS if conform else _EMOJIS))
    return marks / length


def _centred(sizes: Sequence[float]) -> list[float]:
    least, most = min(sizes), max(sizes)
    if least == most:
        return [0.0] * len(sizes)
    raw = [1.0 - (size - least) / (most - least) for size in sizes]
    mean = sum(raw) / len(raw)
    return [each - mean for each in raw]
