"""Looking for a few byte strings in very many lines that almost never have one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_ALL = bytes(range(256))
_LEARNED_FROM = 64  # lines


class ByteMatcher:
    """A matcher of byte strings in lines that rarely contain one.

    Searching for one byte takes a tenth of the time of searching for a string. The matcher therefore searches first for
    bytes that the strings share. It learns from the first lines which bytes are rare.

    Args:
        needles: The byte strings to find; not empty.

    >>> ByteMatcher([b"sk-1234", b"sk-5678"]).are_in(b"my key is sk-5678")
    True
    """

    def __init__(self, needles: Iterable[bytes] = ()) -> None:
        self._needles = tuple(needles)
        self._lines = Counter[int]()  # in how many of those learned from a byte was
        self._learned_from = 0
        self._choose()

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._needles)

    def are_in(self, line: bytes) -> bool:
        """Whether a line has at least one of them."""
        for_nothing = False
        for byte, needles in self._chosen:
            if byte in line:
                for needle in needles:
                    if needle in line:
                        return True
                for_nothing = True
        if for_nothing and self._learned_from < _LEARNED_FROM:
            self._learned_from += 1
            self._lines.update(_ALL.translate(None, _ALL.translate(None, line)))
            self._choose()
        return False

    def _choose(self) -> None:
        chosen: list[tuple[int, list[bytes]]] = []
        left: Iterable[bytes] = self._needles
        while left:
            shared = Counter(byte for needle in left for byte in set(needle))
            rarest = min(shared, key=lambda byte: (self._lines[byte], -shared[byte], byte))
            chosen.append((rarest, [needle for needle in left if rarest in needle]))
            left = [needle for needle in left if rarest not in needle]
        self._chosen = chosen
