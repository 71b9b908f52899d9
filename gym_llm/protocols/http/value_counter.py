"""ValueCounter: the number of JSON values in a text, counted on its bytes before any object is made of them."""

from __future__ import annotations

NUMBERS_PER_VALUE = 16
_FAST_BYTES = 1 << 20  # up to here the pieces are kept, so that they can be counted exactly


class ValueCounter:
    """Counts the JSON values of a text that arrives in pieces: texts, lists, objects, and a part for each number.

    Characters inside strings do not count. The first, fast count ignores this, so it is never too low. If it exceeds
    the limit, or there are many pieces, they are counted exactly.

    Args:
        most: The most values.

    Attributes:
        weight: The count, which may be too high.
        is_in_string: Whether the pieces that are counted exactly end inside a string.

    >>> counter = ValueCounter(9)
    >>> counter.feed(b'[["[[[[[[[[[[", ')
    True
    >>> counter.feed(b"[], [], [], [], [], [], []]]")
    False
    """

    __slots__ = ("_backslash", "_is_exact", "_most", "_pieces", "_size", "_sums", "is_in_string", "weight")

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._is_exact = False
        self.is_in_string = False
        self._backslash = b""
        self._size = 0
        self._sums = [0, 0, 0]  # brackets, quotes, commas
        self.weight = 0

    def feed(self, piece: bytes) -> bool:
        """Count a piece; return False once there are too many values."""
        if not self._is_exact:
            self._pieces.append(piece)
            self._size += len(piece)
            self._add(piece.count(b"[") + piece.count(b"{"), piece.count(b'"'), piece.count(b","))
            if self.weight <= self._most and self._size <= _FAST_BYTES:
                return True
            self._is_exact, self._sums = True, [0, 0, 0]
            pieces, self._pieces = self._pieces, []
        else:
            pieces = [piece]
        for each in pieces:
            self.count(each)
        return self.weight <= self._most

    def _add(self, brackets: int, quotes: int, commas: int) -> None:
        sums = self._sums
        sums[0] += brackets
        sums[1] += quotes
        sums[2] += commas
        self.weight = sums[0] + sums[1] // 2 + sums[2] // NUMBERS_PER_VALUE

    def count(self, piece: bytes) -> None:
        """Count a piece exactly."""
        import numpy as np  # not needed for what is small

        piece = self._backslash + piece
        escapes = len(piece) - len(piece.rstrip(b"\\"))
        self._backslash = piece[len(piece) - escapes % 2 :]  # escapes what comes next
        piece = piece[: len(piece) - escapes % 2]
        data = np.frombuffer(piece.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
        quotes = data == ord('"')
        inside = np.bitwise_xor.accumulate(quotes.view(np.uint8)) ^ self.is_in_string
        if len(data):
            self.is_in_string = bool(inside[-1])
        outside = inside == 0
        brackets = np.count_nonzero(((data | 0x20) == ord("{")) & outside)  # `[` and `{` differ in this bit
        commas = np.count_nonzero((data == ord(",")) & outside)
        self._add(int(brackets), int(np.count_nonzero(quotes)), int(commas))
