"""Shared prefixes of prompts: a new prompt copies keys and values instead of reading the same tokens again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

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
        """Let it be found, in place of an earlier one with the same beginning."""
        for key in sequence.prefix_keys:
            self._sequences[key] = sequence

    def remove(self, sequence: T) -> None:
        """Let it not be found any more."""
        for key in sequence.prefix_keys:
            if self._sequences.get(key) is sequence:
                del self._sequences[key]

    def longest(self, sequence: Prompted) -> tuple[T | None, int]:
        """The sequence that shares most, and how many tokens; (None, 0) if none shares a block or everything."""
        end = len(sequence.prompt) - 1
        for number in range(len(sequence.prefix_keys), 0, -1):
            found = self._sequences.get(sequence.prefix_keys[number - 1])
            length = min(number * BLOCK, end)
            if found is not None and found.prompt[:length] == sequence.prompt[:length]:  # not only their hashes
                return found, length
        return None, 0


@dataclass(slots=True, eq=False)
class KeptPrefix:
    """A finished sequence whose keys and values are kept.

    Attributes:
        prompt: All its tokens; all but the last were read.
        data: Their keys and values.
        size: In bytes.
        prefix_keys: `prefix_keys(prompt)`, and those of the prompt that it began with.
    """

    prompt: list[int]
    data: Any
    size: int
    prefix_keys: list[int]


class KeptPrefixes:
    """Finished sequences, the least recently used dropped first.

    Args:
        limit: Bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._kept: OrderedDict[int, KeptPrefix] = OrderedDict()
        self._index: PrefixIndex[KeptPrefix] = PrefixIndex()

    def add(self, sequence: Prompted, tokens: list[int], data: Any, size: int) -> None:
        """Keep the tokens of a finished sequence, after `make_room`."""
        kept = KeptPrefix(tokens, data, size, [*sequence.prefix_keys[-1:], *prefix_keys(tokens)])
        self._kept[id(kept)] = kept
        self._index.add(kept)
        self._size += size

    def make_room(self, size: int) -> bool:
        """Drop sequences until another of this size may be kept; False if it is too large."""
        if size > self._limit:
            return False
        while self._size + size > self._limit:
            _, dropped = self._kept.popitem(last=False)
            self._index.remove(dropped)
            self._size -= dropped.size
        return True

    def longest(self, sequence: Prompted) -> tuple[KeptPrefix | None, int]:
        """The one that shares most, and how many tokens; see `PrefixIndex.longest`."""
        found, length = self._index.longest(sequence)
        if found is not None:
            self._kept.move_to_end(id(found))
        return found, length

    def clear(self) -> None:
        """Drop all."""
        self._kept.clear()
        self._index, self._size = PrefixIndex(), 0
