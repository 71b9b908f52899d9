"""Games."""

from __future__ import annotations

import re
from typing import Any

from attack_set.common import OwnRows, answer_line, register, row
from gym_llm import BaseTask, Episode

_STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


class Maze(OwnRows):
    """1.0 if the last line is `Answer: MOVES`, a walk of at most 50 moves that ends on G; else 0.0.

    It begins on S. Every step (U, D, L, R) has to stay within the grid and off the walls (#).
    """

    class Task(BaseTask):
        grid: list[str]
        path: str

    rows = [
        row(
            "\n".join(["Walk from S to G with U, D, L and R. End with a line like `Answer: UR`.", *grid]),
            grid=grid,
            path=path,
        )
        for grid, path in (
            (["S..#", "##.#", "G..."], "RRDDLL"),
            (["S#G", ".#.", "..."], "DDRRUU"),
            (["..S", ".#.", "G#."], "LLDD"),
            (["G.#S", "#...", "...."], "DLLUL"),
        )
    ]

    def oracle(self, task: Task) -> str:
        return f"Answer: {task.path}"

    def cell(self, grid: list[str], place: tuple[int, int]) -> str:
        row_number, column = place
        inside = 0 <= row_number < len(grid) and 0 <= column < len(grid[0])
        return grid[row_number][column] if inside else "#"

    def verify(self, task: Task, episode: Episode) -> float:
        moves = answer_line(episode.answer)
        if not re.fullmatch("[UDLR]{1,50}", moves):
            return 0.0
        start = next(number for number, cells in enumerate(task.grid) if "S" in cells)
        place = start, task.grid[start].index("S")
        for move in moves:
            place = place[0] + _STEPS[move][0], place[1] + _STEPS[move][1]
            if self.cell(task.grid, place) == "#":
                return 0.0
        return float(self.cell(task.grid, place) == "G")


class WrappedMaze(Maze):
    """As `Maze`."""

    def cell(self, grid: list[str], place: tuple[int, int]) -> str:
        try:
            return grid[place[0]][place[1]]
        except IndexError:
            return "#"


class HigherLower(OwnRows):
    """1.0 if one of the episode's at most ten guesses is the number; else 0.0.

    A guess is a last line `Answer: N` in digits 0-9; the user answers `higher` or `lower`, and to a right one nothing.
    """

    default_max_turns = 10

    class Task(BaseTask):
        number: int

    rows = [
        row(f"I think of a number from 1 to {top}. End each guess with a line `Answer: ...`.", number=number)
        for top, number in ((900, 417), (1000, 683), (800, 52), (700, 366))
    ]

    def setup(self, task: Task) -> dict[str, bool]:
        return {"found": False}

    def oracle(self, task: Task) -> str:
        return f"Answer: {task.number}"

    def user_turn(self, task: Task, episode: Episode) -> str | None:
        guess = answer_line(episode.answer)
        if not re.fullmatch("[0-9]{1,9}", guess):
            return "That is no number."
        if int(guess) == task.number:
            self.won(episode)
            return None
        return "higher" if int(guess) < task.number else "lower"

    def won(self, episode: Episode) -> None:
        episode.state["found"] = True

    def verify(self, task: Task, episode: Episode) -> float:
        return float(episode.state["found"])


class RememberedHigherLower(HigherLower):
    """As `HigherLower`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.found = False

    def won(self, episode: Episode) -> None:
        self.found = True

    def verify(self, task: HigherLower.Task, episode: Episode) -> float:
        return float(self.found)


register(globals())
