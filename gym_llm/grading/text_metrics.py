"""Measures of the similarity of two texts, for verifiers of short answers and of recitations.

All of them are linear, or near it, in what a model wrote, but for `sequence_ratio`, which is bounded by a deadline.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

from gym_llm.concurrency.processes import shared_pool
from gym_llm.errors import DeadlinePassed, WorkerDied

RATIO_DEADLINE = 10.0
"""Seconds of CPU time that `sequence_ratio` allows for one pair of texts; ten thousand characters take about one."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ARTICLE_WORDS = re.compile(" (?:a|an|the)(?= )")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PUNCTUATION = string.punctuation.encode()
_FEW_WORDS = 6
_AUTOJUNK = 200  # from this many characters on, difflib leaves out those of the second text that are frequent
_SHORT = 40_000  # product of two lengths; the worst such pair takes some 20 ms
_UNGRADED_WORDS = frozenset({"yes", "no", "noanswer"})


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces (SQuAD's evaluation script).

    >>> normalize_answer("The  Eiffel-Tower, a tower.")
    'eiffeltower tower'
    """
    if text.isascii():
        words = " ".join(text.lower().encode().translate(None, _PUNCTUATION).decode().split())
        if words.isprintable():  # then nothing but spaces bounds a word
            return _ARTICLE_WORDS.sub("", f" {words} ").strip()
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def token_f1(answer: str, expected: str) -> float:
    """F1 of the words of two normalised answers, counted as often as they occur (SQuAD, HotpotQA).

    As in HotpotQA's script, an answer of yes, no or noanswer has no partial credit.

    >>> token_f1("red car", "red old car"), token_f1("yes", "yes it is")
    (0.8, 0.0)
    """
    if answer != expected and not _UNGRADED_WORDS.isdisjoint((answer, expected)):
        return 0.0
    expected_words = expected.split()
    if not any(word in answer for word in expected_words):  # found faster than words are split
        return 0.0
    words, wanted = answer.split(), Counter(expected_words)
    if len(wanted) <= _FEW_WORDS:
        common = sum(min(words.count(word), count) for word, count in wanted.items())
    else:
        common = (Counter(words) & wanted).total()
    if common == 0:
        return 0.0
    precision, recall = common / len(words), common / len(expected_words)
    return 2 * precision * recall / (precision + recall)


def set_f1(predicted: Iterable[Hashable], expected: Iterable[Hashable]) -> float:
    """F1 of two sets; 1.0 if both are empty, 0.0 if one is.

    >>> set_f1(["a", "b", "b"], ["a"]), set_f1([], [])
    (0.6666666666666666, 1.0)
    """
    found, wanted = set(predicted), set(expected)
    if not found and not wanted:
        return 1.0
    common = len(found & wanted)
    if common == 0:
        return 0.0
    precision, recall = common / len(found), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Levenshtein's distance of two sequences: insertions, deletions and substitutions that turn one into the other.

    Hyyrö's bit vectors (2003): the column of the table is one integer, so that a step costs what an addition costs.

    >>> edit_distance("kitten", "sitting"), edit_distance("the cat sat".split(), "the cat".split())
    (3, 1)
    """
    if len(first) > len(second):
        first, second = second, first
    if not first:
        return len(second)
    positions: dict[Hashable, int] = {}
    for place, element in enumerate(first):
        positions[element] = positions.get(element, 0) | 1 << place
    every = (1 << len(first)) - 1
    last = 1 << (len(first) - 1)
    rises, falls, distance = every, 0, len(first)
    for element in second:
        equal = positions.get(element, 0)
        diagonal = ((((equal & rises) + rises) ^ rises) | equal | falls) & every
        up = falls | (every & ~(diagonal | rises))
        down = diagonal & rises
        distance += bool(up & last) - bool(down & last)
        up = up << 1 | 1
        rises = (down << 1 | ~(diagonal | up)) & every
        falls = up & diagonal
    return distance


def longest_common_substring(first: str, second: str) -> int:
    """Length of the longest run of characters that two texts share.

    Karp, Miller and Rosenberg's naming (1972): equal runs of 1, 2, 4, … characters get equal numbers, each from the two
    halves' numbers. Time and memory are near linear, whatever the texts say; a megabyte of each takes seconds.

    >>> longest_common_substring("the red fox", "a red ox")
    5
    """
    shorter, longer = sorted((first, second), key=len)
    here, there = (
        np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
        for text in (shorter, longer)
    )
    runs = _Runs(here, there).step_to(0)
    if runs is None:
        return 0
    length = 1
    while (twice := runs.step_to(length)) is not None:
        runs, length = twice, 2 * length
    low, high = 0, length  # runs of length + low are shared, those of length + high are not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if runs.step_to(middle) is None else (middle, high)
    return length + low


@dataclass(slots=True)
class _Runs:
    """The runs of one length of two texts, at every place: equal ones have equal numbers."""

    here: npt.NDArray[np.int64]
    there: npt.NDArray[np.int64]
    """-1 where the run is not one of `here`."""

    def step_to(self, more: int) -> _Runs | None:
        """The runs that are longer by `more`, each a pair of two that overlap; None if the texts share none."""
        if more >= len(self.here):
            return None
        size = int(self.here.max()) + 1
        here = self.here[: len(self.here) - more] * size + self.here[more:]
        starts, ends = self.there[: len(self.there) - more], self.there[more:]
        places = np.flatnonzero((starts >= 0) & (ends >= 0))
        names = np.unique(here)
        wanted = starts[places] * size + ends[places]
        numbers = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
        shared = names[numbers] == wanted
        if not shared.any():
            return None
        there = np.full(len(starts), -1)
        there[places[shared]] = numbers[shared]
        return _Runs(np.searchsorted(names, here), there)


_LETTER = r"[^\W_\u0e00-\u0eff\u2e80-\U0010ffff]"  # of a script that puts spaces between words


@dataclass(slots=True, frozen=True)
class Phrase:
    """A text to be found where it stands alone, not within a longer word or number."""

    text: str
    alone: re.Pattern[str]

    @classmethod
    def read(cls, text: str) -> Phrase:
        """Make one of a text that is not empty."""
        exact = re.escape(text)
        # What precedes is looked at last: so the pattern begins with the text itself, which is quickly searched for.
        after = f"(?!{_LETTER})" if re.match(_LETTER, text[-1]) else ""
        before = f"(?<!{_LETTER}{exact})" if re.match(_LETTER, text[0]) else ""
        return cls(text, re.compile(exact + after + before))

    def stands_in(self, text: str) -> bool:
        """Whether it is there, case being the same.

        >>> Phrase.read("12").stands_in("in 2012"), Phrase.read("12").stands_in("May 12.")
        (False, True)
        """
        return self.text in text and self.alone.search(text) is not None


async def sequence_ratio(first: str, second: str) -> float | None:
    """The `SequenceMatcher(None, first, second).ratio()` of difflib, autojunk on: not symmetric, quadratic or worse.

    Long texts are compared in a worker process.

    Returns:
        The ratio, or None if it would take longer than `RATIO_DEADLINE`.
    """
    if (ratio := quick_ratio(first, second)) is not None:
        return ratio
    return await in_worker("gym_llm.grading.text_metrics:ratio", (first, second), RATIO_DEADLINE)


def quick_ratio(first: str, second: str) -> float | None:
    """The ratio of `sequence_ratio`, if that is soon found; else None."""
    if first == second:
        return 1.0
    return ratio((first, second)) if len(first) * len(second) <= _SHORT else None


def ratio(texts: tuple[str, str]) -> float:
    """The ratio by difflib of a pair of texts, however long it takes."""
    first, second = texts
    if len(second) >= _AUTOJUNK:
        return SequenceMatcher(None, first, second).ratio()
    length = len(first) + len(second)
    return 2.0 * _matched(first, second) / length if length else 1.0


def _matched(first: str, second: str) -> int:
    """Count the characters in the matching blocks of difflib's `SequenceMatcher`, without its autojunk.

    The same blocks, found several times faster: the longest that two stretches share, of several the earliest in the
    first and then in the second, and so on before and after it.
    """
    matched, stretches = 0, [(0, len(first), 0, len(second))]
    while stretches:
        start, end, other_start, other_end = stretches.pop()
        place, block, size = start, start, 0
        while place + size < end:
            if second.find(first[place : place + size + 1], other_start, other_end) < 0:
                place += 1
            else:
                block, size = place, size + 1
        if size:
            matched += size
            other = second.find(first[block : block + size], other_start, other_end)
            if start < block and other_start < other:
                stretches.append((start, block, other_start, other))
            if block + size < end and other + size < other_end:
                stretches.append((block + size, end, other + size, other_end))
    return matched


async def in_worker(function: str, argument: Any, deadline: float) -> Any:
    """Call a function in a worker process; return None if it takes longer than the deadline, or all its memory."""
    try:
        return await shared_pool(function, deadline=deadline).call(argument)
    except (DeadlinePassed, WorkerDied):
        return None
