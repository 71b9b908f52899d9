"""Tic-tac-toe: a game of two seats with an exact value for every position."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
from pydantic import Field

from gym_llm import BaseTask, Episode, MultiAgentEnv, Verdict
from gym_llm.grading.quotations import meant_words
from gym_llm.judge.multi_agent_env import named_move
from gym_llm.types import Row

_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_RULES = (
    "You play tic-tac-toe. Players take turns to mark a free cell; three in a row, a column or a diagonal win. "
    "The cells are numbered 1 to 9, row by row. Answer with the number of a free cell."
)
EMPTY = "." * 9
"""The first position: nine cells, row by row, each `x`, `o` or `.`."""


def mover(board: str) -> str:
    """Return the seat whose turn it is."""
    return "xo"[(9 - board.count(".")) % 2]


def winner(board: str) -> str | None:
    """Return the seat that has three in a line; None without one."""
    return next((board[a] for a, b, c in _LINES if board[a] != "." and board[a] == board[b] == board[c]), None)


def marked(board: str, cell: int) -> str:
    """Return the board after the mover has marked a cell, from 0."""
    return board[:cell] + mover(board) + board[cell + 1 :]


@cache
def value(board: str) -> int:
    """Return what x gets if both play best from here: 1, 0 or -1.

    >>> value(EMPTY), value("xx.oo...."), value(".....oxxo")
    (0, 1, -1)
    """
    if (won := winner(board)) is not None:
        return 1 if won == "x" else -1
    values = [value(marked(board, cell)) for cell in range(9) if board[cell] == "."]
    if not values:
        return 0
    return max(values) if mover(board) == "x" else min(values)


class TicTacToeTask(BaseTask):
    """A position.

    Attributes:
        board: Nine cells, row by row: `x`, `o`, or `.` for a free one.
    """

    board: str = EMPTY


class TicTacToe(MultiAgentEnv[TicTacToeTask, list[str]]):
    """Play tic-tac-toe in the seats x and o: 1.0 for a win, 0.0 for a draw, -1.0 for a loss.

    A seat that forfeits has lost. The state is a list with the board alone.

    Args:
        opening_marks: At most this many random marks stand on the board of generated tasks.
        **kwargs: See `MultiAgentEnv`.
    """

    possible_agents = ("x", "o")
    forfeit_rewards = (-1.0, 1.0)
    default_max_turns = 16
    accepted_findings: ClassVar[dict[str, str]] = {"non-answer": "the attack plays both seats, and one of them wins"}

    class Config(MultiAgentEnv.Config):
        """The positions of generated tasks."""

        opening_marks: int = Field(2, ge=0, le=4)

    config: Config

    def generate(self, rng: np.random.Generator) -> Row:
        """Return a board with a few random marks."""
        board = EMPTY
        for cell in rng.permutation(9)[: rng.integers(self.config.opening_marks + 1)]:
            board = marked(board, int(cell))
        return self.row([{"role": "system", "content": _RULES}], board=board)

    def setup(self, task: TicTacToeTask) -> list[str]:
        """Set up the row's position."""
        board = task.board
        moves = board.count("x") - board.count("o")
        if len(board) != 9 or set(board) - set("xo.") or moves not in (0, 1) or winner(board) or "." not in board:
            raise ValueError(f"board is nine cells of x, o and . in a game that is not over; got {board!r:.40}.")
        return [board]

    def seat_opening(self, task: TicTacToeTask, state: list[str], seat: str) -> str:
        """Name the seat's mark."""
        return f"Your mark is {seat}."

    def next_seats(self, task: TicTacToeTask, state: list[str]) -> str | None:
        """Return the mover, until a line or the board is full."""
        return mover(state[0]) if winner(state[0]) is None and "." in state[0] else None

    def seat_turn(self, task: TicTacToeTask, state: list[str], seat: str) -> str:
        """Show the board; free cells have their numbers."""
        cells = [mark if mark != "." else str(number) for number, mark in enumerate(state[0], 1)]
        return "\n".join(" ".join(cells[row : row + 3]) for row in (0, 3, 6)) + "\nYour move."

    def legal_moves(self, task: TicTacToeTask, state: list[str], seat: str) -> list[str]:
        """Return the numbers of the free cells."""
        return [str(number) for number, mark in enumerate(state[0], 1) if mark == "."]

    def play(self, task: TicTacToeTask, state: list[str], moves: dict[str, Episode[list[str]]]) -> None:
        """Mark the cell that the mover names last."""
        ((seat, episode),) = moves.items()
        move = named_move(meant_words(episode.answer, episode), self.legal_moves(task, state, seat))
        state[0] = marked(state[0], int(move) - 1)

    def verify_seats(self, task: TicTacToeTask, episodes: dict[str, Episode[list[str]]]) -> dict[str, float | Verdict]:
        """Pay the winner; a draw, or a game that was cut off, pays nothing."""
        won = winner(episodes["x"].state[0])
        return {seat: 0.0 if won is None else 1.0 if seat == won else -1.0 for seat in episodes}
