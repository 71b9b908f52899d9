"""Sokoban rooms: the rules, and levels that can be solved because they are played backwards from their end."""

from __future__ import annotations

import random
from collections import deque
from functools import lru_cache

Cell = tuple[int, int]
MOVES: dict[str, Cell] = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}
_SYMBOLS = "#_OX√PS"
_MOST_STATES = 3_000
_TRIES = 20


class Room:
    """A room with its player and boxes.

    Args:
        board: Rows of `#` wall, `_` floor, `O` target, `X` box, `√` box on target, `P` player, `S` player on target.

    Raises:
        ValueError: If the room cannot be played.
    """

    def __init__(self, board: str) -> None:
        cells = {(y, x): symbol for y, row in enumerate(board.splitlines()) for x, symbol in enumerate(row)}
        if unknown := sorted(set(cells.values()) - set(_SYMBOLS)):
            raise ValueError(f"a board has the symbols {' '.join(_SYMBOLS)}, not {unknown[0]!r}")
        self.rows = [len(row) for row in board.splitlines()]
        self.floor = frozenset(cell for cell, symbol in cells.items() if symbol != "#")
        self.targets = frozenset(cell for cell, symbol in cells.items() if symbol in "O√S")
        self.boxes = frozenset(cell for cell, symbol in cells.items() if symbol in "X√")
        players = [cell for cell, symbol in cells.items() if symbol in "PS"]
        if len(players) != 1 or not self.boxes or len(self.boxes) != len(self.targets):
            raise ValueError("a board has one player, and as many boxes as targets, at least one")
        self.player = players[0]

    @property
    def done(self) -> int:
        """Return the number of boxes on targets."""
        return len(self.boxes & self.targets)

    def move(self, direction: str) -> bool:
        """Move the player, who pushes a box; whether there was room."""
        to = _plus(self.player, MOVES[direction])
        if to in self.boxes:
            beyond = _plus(to, MOVES[direction])
            if beyond not in self.floor or beyond in self.boxes:
                return False
            self.boxes = self.boxes - {to} | {beyond}
        elif to not in self.floor:
            return False
        self.player = to
        return True

    def text(self) -> str:
        """The board."""
        return "\n".join("".join(self._symbol((y, x)) for x in range(width)) for y, width in enumerate(self.rows))

    def _symbol(self, cell: Cell) -> str:
        target = cell in self.targets
        if cell == self.player:
            return "S" if target else "P"
        if cell in self.boxes:
            return "√" if target else "X"
        return "#" if cell not in self.floor else "O" if target else "_"


@lru_cache(1_024)
def make_board(seed: int, rows: int, columns: int, boxes: int) -> str:
    """Make a level that can be solved.

    Args:
        seed: The same seed gives the same level.
        rows: Rows of the board, with walls.
        columns: Columns of the board, with walls.
        boxes: Number of boxes.

    Raises:
        ValueError: If the boxes do not fit.
    """
    rng = random.Random(f"sokoban {seed}")
    for _ in range(_TRIES):
        floor = _carve(rng, rows, columns, boxes)
        targets = frozenset(rng.sample(sorted(floor), boxes))
        found = _pulled_apart(rng, floor, targets)
        if found is not None:
            player, places = found
            symbols = dict.fromkeys(floor, "_") | dict.fromkeys(targets, "O") | dict.fromkeys(places, "X")
            symbols |= dict.fromkeys(places & targets, "√")
            symbols[player] = "S" if player in targets else "P"
            return "\n".join("".join(symbols.get((y, x), "#") for x in range(columns)) for y in range(rows))
    raise ValueError(f"a room of {rows} by {columns} has no level with {boxes} boxes")


def _carve(rng: random.Random, rows: int, columns: int, boxes: int) -> frozenset[Cell]:
    """Floor that hangs together: where somebody has walked about, often straight on."""
    inner = (rows - 2) * (columns - 2)
    wanted = min(inner, max(inner * 3 // 5, 2 * boxes + 3))
    cell = (rng.randint(1, rows - 2), rng.randint(1, columns - 2))
    floor, way = {cell}, rng.choice(list(MOVES.values()))
    while len(floor) < wanted:
        if rng.random() < 0.4:
            way = rng.choice(list(MOVES.values()))
        y, x = _plus(cell, way)
        cell = (min(max(y, 1), rows - 2), min(max(x, 1), columns - 2))
        floor.add(cell)
        if rng.random() < 0.02:
            cell = rng.choice(sorted(floor))
    return frozenset(floor)


def _pulled_apart(
    rng: random.Random, floor: frozenset[Cell], targets: frozenset[Cell]
) -> tuple[Cell, frozenset[Cell]] | None:
    """Play backwards from the end: the player pulls boxes off the targets, as many and as far as possible."""
    free = sorted(floor - targets)
    if not free:
        return None
    start = (rng.choice(free), targets)
    seen, queue = {start}, deque([start])
    best, most = None, (1, 1)
    while queue and len(seen) < _MOST_STATES:
        player, boxes = queue.popleft()
        ways = list(MOVES.values())
        rng.shuffle(ways)
        for way in ways:
            to = _plus(player, way)
            if to not in floor or to in boxes:
                continue
            behind = (player[0] - way[0], player[1] - way[1])
            states = [(to, boxes)]
            if behind in boxes:
                states.append((to, boxes - {behind} | {player}))
            for state in states:
                if state not in seen:
                    seen.add(state)
                    queue.append(state)
                    if (distance := _distance(state[1], targets)) >= most:
                        best, most = state, distance
    return best


def _distance(boxes: frozenset[Cell], targets: frozenset[Cell]) -> tuple[int, int]:
    return len(boxes - targets), sum(min(abs(y - ty) + abs(x - tx) for ty, tx in targets) for y, x in boxes)


def _plus(cell: Cell, way: Cell) -> Cell:
    return cell[0] + way[0], cell[1] + way[1]
