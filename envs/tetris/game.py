"""A small Tetris, of one or two cells a piece, in which the first full line ends the game."""

from __future__ import annotations

import random
from typing import Literal

Cells = tuple[tuple[int, int], ...]
Kind = Literal["I", "-", "O", "."]
Piece = tuple[Kind, int]
"""A kind, and the column of its right lower cell."""

CELLS: dict[Kind, Cells] = {
    "I": ((0, 0), (0, -1)),
    "-": ((0, 0), (-1, 0)),
    "O": ((0, 0), (-1, 0), (0, -1), (-1, -1)),
    ".": ((0, 0),),
}
KINDS: dict[int, tuple[Kind, ...]] = {1: (".",), 2: ("I", "-"), 3: ("I", "-", "O")}
"""The kinds of a row's `box_type`."""


class Board:
    """The settled blocks and the piece that falls.

    Args:
        width: Columns.
        height: Rows.
        kinds: The kinds of pieces that are drawn: rarer ones so far are likelier.
        rng: Draws them.
        pieces: Those that fall first.
    """

    def __init__(
        self, width: int, height: int, kinds: tuple[Kind, ...], rng: random.Random, pieces: list[Piece]
    ) -> None:
        self.width, self.height = width, height
        self.settled = [[False] * width for _ in range(height)]
        self._kinds, self._rng = kinds, rng
        self._drawn = [0] * len(kinds)
        self._next = [*pieces, *(self._draw() for _ in range(width * height + 1))]
        self._take()

    def _draw(self) -> Piece:
        most = max(self._drawn)
        weights = [5 + most - count for count in self._drawn]
        rest = self._rng.randint(1, sum(weights))
        number = 0
        while (rest := rest - weights[number]) > 0:
            number += 1
        self._drawn[number] += 1
        kind = self._kinds[number]
        return kind, self._rng.randint(1 if kind in "-O" else 0, self.width - 1)

    def _take(self) -> None:
        kind, self.column = self._next.pop(0) if self._next else self._draw()
        self.cells, self.row = CELLS[kind], 0

    def _blocked(self, column: int, row: int) -> bool:
        for dx, dy in self.cells:
            x, y = column + dx, row + dy
            if y >= 0 and (not 0 <= x < self.width or y >= self.height or self.settled[y][x]):
                return True
        return False

    def move(self, dx: int, dy: int) -> bool:
        """Move the piece if there is room; whether there was."""
        if self._blocked(self.column + dx, self.row + dy):
            return False
        self.column, self.row = self.column + dx, self.row + dy
        return True

    def lands(self) -> bool:
        """Whether the piece lies on something."""
        return self._blocked(self.column, self.row + 1)

    def settle(self) -> tuple[int, bool]:
        """Make the piece settled blocks and let the next one fall; (full lines, whether the top row is reached)."""
        for x, y in self._falling():
            self.settled[y][x] = True
        left = [row for row in self.settled if not all(row)]
        lines = self.height - len(left)
        self.settled = [[False] * self.width for _ in range(lines)] + left
        if full := any(self.settled[0]):
            return lines, full
        self._take()
        return lines, full

    def _falling(self) -> list[tuple[int, int]]:
        cells = [(self.column + dx, self.row + dy) for dx, dy in self.cells]
        return [(x, y) for x, y in cells if 0 <= x < self.width and 0 <= y < self.height]

    def text(self) -> str:
        """The board: `_` empty, `#` settled, `X` falling."""
        rows = [["#" if block else "_" for block in row] for row in self.settled]
        for x, y in self._falling():
            rows[y][x] = "X"
        return "\n".join(map("".join, rows))
