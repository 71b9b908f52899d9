"""Tetris: clear a line (NeMo Gym's `grl_tetris`)."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from gym_llm.core.text_game import Move, SeededTask, TextGame, seeded_row
from gym_llm.envs.tetris.game import KINDS, Board, Piece
from gym_llm.types import Row

Side = Annotated[int, Field(ge=2, le=64)]
_ACTION = re.compile(r"<action>\s*(left|right|down|[0-2])\s*</action>", re.IGNORECASE)
_MOVES = {"left": (-1, 0), "right": (1, 0), "down": (0, 1), "0": (-1, 0), "1": (1, 0), "2": (0, 1)}
_MOST_MOVES = 1_000
"""Of one answer; the rest is not made."""


@dataclass
class Tetromino:
    """A board, move by move."""

    board: Board

    def observation(self) -> str:
        """The board, and how to answer."""
        return (
            f"Tetris board:\n{self.board.text()}\n\nLegend: _=empty, #=settled block, X=falling piece.\n"
            "Respond with one or more moves using <action>Left</action>, <action>Right</action>, or "
            "<action>Down</action>. Multiple action tags in one turn are applied in order."
        )

    def play(self, text: str) -> Move | None:
        """Make all moves of the text, until the game is over."""
        reward, made, info = 0.0, 0, {}
        for action in islice(_ACTION.finditer(text), _MOST_MOVES):
            effective = self.board.move(*_MOVES[action[1].lower()])
            dropped, lines, full = self.board.lands(), 0, False
            if dropped:
                lines, full = self.board.settle()
            reward += 10 * lines - 0.1
            made += 1
            info = {
                "action_is_effective": effective,
                "action_is_valid": True,
                "success": lines > 0,
                "dropped": dropped,
                "num_actions_applied": made,
            }
            if lines or full:
                return Move(reward, True, info)
        return Move(reward, False, info) if made else None


class Tetris(TextGame):
    """Steer falling pieces: 10 for a full line, which ends the game, -0.1 for every move.

    Args:
        **kwargs: As for every `TextGame`.
    """

    default_max_turns = 20

    accepted_findings = {"range": "0.1 less for each move, 10 more for each line, as in NeMo Gym"}

    class Task(SeededTask):
        """A game."""

        dim_board: tuple[Side, Side] = (4, 4)
        """Columns and rows."""
        dim_x: Side | None = None
        dim_y: Side | None = None
        box_type: int = 3
        """3: I (two cells), - (two cells) and O (four); 2: I and -; others: single cells."""
        pieces: list[Piece] = []
        """What falls first: `["O", 3]` is an O whose right column is 3, counted from 0."""

        @model_validator(mode="after")
        def _pieces_fit(self) -> Tetris.Task:
            width = self.dim_x or self.dim_board[0]
            for kind, column in self.pieces:
                if not (1 if kind in "-O" else 0) <= column < width:
                    raise ValueError(f"a piece {kind!r} does not fit into column {column}")
            return self

    def generate(self, rng: np.random.Generator) -> Row:
        """A board of four to six columns and rows."""
        system = (
            "You play Tetris on a small board. You see it before every answer; answer with one or more moves, such as "
            "<action>Left</action> or <action>Down</action>."
        )
        size = [int(rng.integers(4, 7)), int(rng.integers(4, 7))]
        return seeded_row(int(rng.integers(2**31)), system, "Clear a line.", dim_board=size, box_type=3)

    def start(self, task: Task, rng: random.Random) -> Tetromino:  # type: ignore[override]
        """Let the first piece fall."""
        width, height = (4, 4) if self.conform else task.dim_board
        kinds = KINDS.get(task.box_type, KINDS[1])
        return Tetromino(Board(task.dim_x or width, task.dim_y or height, kinds, rng, list(task.pieces)))
