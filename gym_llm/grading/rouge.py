"""ROUGE: what a text shares with a reference, as F1 of words, pairs of words, or of the longest common subsequence.

As Google's `rouge-score` without a stemmer (Lin, 2004, https://aclanthology.org/W04-1013), for English: words are runs
of ASCII letters and digits, in lower case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

_SPACED = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))


def rouge_words(text: str) -> list[str]:
    """The words of a text.

    >>> rouge_words("It's Ünal's 2nd.")
    ['it', 's', 'nal', 's', '2nd']
    """
    return text.lower().encode("ascii", "replace").translate(_SPACED).decode().split()


class Reference:
    """A reference, read once for all the texts that are compared with it.

    Args:
        words: Its words.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    @cached_property
    def _pairs(self) -> Counter[Hashable]:
        return Counter(pairwise(self.words))

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return _bits(self.words)

    def shared(self, words: Sequence[str]) -> int:
        """Count the words that it shares with others, each as often as both have it.

        >>> Reference(["a", "red", "fox"]).shared(["a", "fox", "a"])
        2
        """
        counts = Counter(filter(None, map(self._places.get, words)))
        return sum(min(count, places.bit_count()) for places, count in counts.items())

    def rouge_1(self, words: Sequence[str]) -> float:
        """F1 of the words, counted as often as they occur.

        >>> Reference(["fox"]).rouge_1(["a", "red", "fox"])
        0.5
        """
        return _f1(len(words), len(self.words), self.shared(words))

    def rouge_2(self, words: Sequence[str]) -> float:
        """F1 of the pairs of words that follow each other.

        >>> Reference(["red", "fox"]).rouge_2(["a", "red", "fox"])
        0.6666666666666666
        """
        counts = Counter(filter(self._pairs.__contains__, pairwise(words)))
        common = sum(min(count, self._pairs[pair]) for pair, count in counts.items())
        return _f1(max(len(words) - 1, 0), max(len(self.words) - 1, 0), common)

    def rouge_l(self, words: Sequence[str]) -> float:
        """F1 of the longest common subsequence.

        >>> Reference(["the", "red", "fox", "off"]).rouge_l(["the", "fox", "ran", "off"])
        0.75
        """
        return _f1(len(words), len(self.words), _subsequence(words, self._places, len(self.words)))


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence.

    >>> common_subsequence("abcd", "xaxcx")
    2
    """
    return _subsequence(second, _bits(first), len(first))


def _bits(sequence: Sequence[Hashable]) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for place, element in enumerate(sequence):
        places[element] = places.get(element, 0) | 1 << place
    return places


def _subsequence(sequence: Sequence[Hashable], places: Mapping[Hashable, int], length: int) -> int:
    """Length of the longest common subsequence; by bit vectors (Hyyrö, 2004): a step costs what an addition costs."""
    every = (1 << length) - 1
    unmatched = every
    for bits in filter(None, map(places.get, sequence)):  # an element of only one of them changes nothing
        found = unmatched & bits
        unmatched = ((unmatched + found) | (unmatched - found)) & every
    return length - unmatched.bit_count()


def _f1(size: int, expected: int, common: int) -> float:
    return 2 * common / (size + expected) if common else 0.0
