"""Functions that run a task's patterns over an answer; `is_quick` finds the pairs that need no worker process."""

from __future__ import annotations

import re
from functools import lru_cache

_MOST_SHOWN = 100
_MOST_CHARACTERS = 10_000
_MOST_STEPS = 2_500_000  # some 30 ms of the worst pair
_ATOM = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_MOST_REPEATS = 6


def is_quick(patterns: list[str], text: str, by_line: bool) -> bool:
    """Return whether the patterns take at most some milliseconds on the text, or on its lines.

    A search of n characters with k repeats, none of them nested, takes at most n to the power of k + 1 steps. Each `?`
    doubles this.

    >>> is_quick(["^- .+"], "- a", True), is_quick(["(a+)+b"], "a", True), is_quick([".*a.*b"], "a" * 300, True)
    (True, False, False)
    """
    powers = [power for power in map(_power, patterns) if power is not None]
    if len(powers) < len(patterns) or len(text) > _MOST_CHARACTERS:
        return False
    sizes = map(len, text.split("\n")) if by_line else [len(text)]
    return sum([factor * size**exponent for size in sizes for factor, exponent in powers]) <= _MOST_STEPS


@lru_cache(1_024)
def _power(pattern: str) -> tuple[int, int] | None:
    """Return the factor and the exponent of a pattern's steps; None if it has groups, branches or many repeats."""
    plain = _ATOM.sub("", pattern)
    repeats, optional = sum(map(plain.count, "*+{")), plain.count("?")
    if repeats > _MOST_REPEATS or optional > _MOST_REPEATS or not {*"()|["}.isdisjoint(plain):
        return None
    return 2**optional, repeats + 1


def count_lines(patterns_and_text: tuple[list[str], str]) -> int:
    r"""Return the number of lines (of "\n") in which some pattern is found.

    >>> count_lines((["^- .", "[.]$"], "- one.\n- two\nthree"))
    2
    """
    patterns, text = patterns_and_text
    found = [re.compile(pattern).search for pattern in patterns]
    return sum(any(search(line) for search in found) for line in text.split("\n"))


def other_matches(patterns_text_and_expected: tuple[list[str], str, frozenset[str]]) -> list[str]:
    r"""Return the first hundred matches that are not expected.

    >>> other_matches(([r"[[]\d[]]"], "As [1] and [2] say.", frozenset({"[1]"})))
    ['[2]']
    """
    patterns, text, expected = patterns_text_and_expected
    others: list[str] = []
    for pattern in patterns:
        for match in re.finditer(pattern, text):
            if match[0] not in expected:
                others.append(match[0][:1_000])
                if len(others) == _MOST_SHOWN:
                    return others
    return others
