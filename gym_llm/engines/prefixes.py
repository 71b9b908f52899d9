"""Shared prefixes of prompts: a new prompt copies keys and values instead of reading the same tokens again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

BLOCK = 64
"""Tokens; prompts that differ share whole blocks. One with fewer in common is read as quickly as it is copied."""


class Prompted(Protocol):
    """A sequence with a prompt.

    Attributes:
        prompt: Token ids. All but the last are read before anything is sampled.
        prefix_keys: `prefix_keys(prompt)`.
    """

    prompt: list[int]
    prefix_keys: list[int]


T = TypeVar("T", bound=Prompted)


def prefix_keys(prompt: list[int]) -> list[int]:
    """A hash of each beginning of a prompt that another may have, too, the shortest first.

    These are the whole blocks, and at last all that is read: all tokens but the last one.

    >>> one, other = [prefix_keys(list(range(200)) + [end, 0]) for end in (5, 6)]
    >>> len(one), one[:3] == other[:3], one[3] == other[3]
    (4, True, False)
    """
    keys, key, end = [], 0, len(prompt) - 1
    for start in range(0, end, BLOCK):
        key = hash((key, tuple(prompt[start : min(start + BLOCK, end)])))
        keys.append(key)
    return keys


class PrefixIndex(Generic[T]):
    """Finds the sequence with which a prompt has most in common at its beginning."""

    def __init__(self, sequences: Iterable[T] = ()) -> None:
        self._sequences: dict[int, T] = {}
        for sequence in sequences:
            self.add(sequence)

    def add(self, sequence: T) -> None:
        """Let it be found."""
        for key in sequence.prefix_keys:
            self._sequences.setdefault(key, sequence)

    def longest(self, sequence: T) -> tuple[T | None, int]:
        """The sequence that shares most, and how many tokens; (None, 0) if none shares a block or everything."""
        end = len(sequence.prompt) - 1
        for number in range(len(sequence.prefix_keys), 0, -1):
            found = self._sequences.get(sequence.prefix_keys[number - 1])
            length = min(number * BLOCK, end)
            if found is not None and found.prompt[:length] == sequence.prompt[:length]:  # not only their hashes
                return found, length
        return None, 0
