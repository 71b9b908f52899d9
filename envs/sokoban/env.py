"""Sokoban: push the boxes onto the targets, one move a turn (NeMo Gym's `grl_sokoban`)."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from gym_llm.core.text_game import Move, SeededTask, TextGame, seeded_row
from gym_llm.envs.sokoban.room import MOVES, Room, make_board
from gym_llm.errors import DataError
from gym_llm.types import Row

Side = Annotated[int, Field(ge=4, le=20)]
_TAG = re.compile(r"<action>\s*(up|down|left|right|[1-4])\s*</action>", re.IGNORECASE)
_WORD = re.compile(r"\b(up|down|left|right|[1-4])\b", re.IGNORECASE)
_ONLY_WORD = re.compile(r"\W*(up|down|left|right|[1-4])\W*", re.IGNORECASE)


@dataclass
class Level:
    """A room, move by move."""

    room: Room
    max_steps: int
    any_word: bool
    steps: int = 0

    def observation(self) -> str:
        """The board, and how to answer."""
        return (
            f"Sokoban board:\n{self.room.text()}\n\n"
            "Legend: #=wall, _=floor, O=target, X=box, √=box on target, P=player, S=player on target.\n"
            "Respond with exactly one move using <action>Up</action>, <action>Down</action>, <action>Left</action>, or "
            "<action>Right</action>."
        )

    def play(self, text: str) -> Move | None:
        """Make the move of the first tag, or of a text that is a move and nothing else."""
        said = _TAG.search(text)
        if said is None:
            said = _WORD.search(text) if self.any_word else _ONLY_WORD.fullmatch(text) if len(text) < 100 else None
        if said is None:
            return None
        token = said[1].capitalize()
        direction = list(MOVES)[int(token) - 1] if token.isdigit() else token
        before = self.room.done
        effective = self.room.move(direction)
        self.steps += 1
        done = self.room.done
        solved = done == len(self.room.targets)
        reward = -0.1 + (done > before) - (done < before) + 10 * solved
        info = {
            "action_is_effective": effective,
            "action_is_valid": True,
            "success": solved,
            "action_id": list(MOVES).index(direction) + 1,
            "action_label": direction,
        }
        return Move(reward, solved or self.steps == self.max_steps, info)


class Sokoban(TextGame):
    """Solve a level: -0.1 for a move, 1 for a box on its target (-1 for one off it), 10 for all.

    Args:
        **kwargs: As for every `TextGame`.
    """

    default_max_turns = 20

    class Task(SeededTask):
        """A level."""

        dim_room: tuple[Side, Side] = (6, 6)
        """Rows and columns, walls included."""
        num_boxes: Annotated[int, Field(ge=1, le=6)] = 1
        max_steps: Annotated[int, Field(ge=1)] = 100
        board: str | None = None
        """The level itself; without it the seed makes one."""

        @field_validator("board")
        @classmethod
        def _is_a_room(cls, board: str | None) -> str | None:
            if board is not None:
                Room(board)
            return board

    def generate(self, rng: np.random.Generator) -> Row:
        """A level of five to seven rows and columns with a box."""
        system = (
            "You play Sokoban: push every box (X) onto a target (O). You see the board before every answer; "
            "answer with one move: <action>Up</action>, <action>Down</action>, <action>Left</action> or "
            "<action>Right</action>."
        )
        size = [int(rng.integers(5, 8)), int(rng.integers(5, 8))]
        return seeded_row(int(rng.integers(2**31)), system, "Solve the level.", dim_room=size, num_boxes=1)

    def start(self, task: Task, rng: random.Random) -> Level:  # type: ignore[override]
        """Enter the level."""
        try:
            board = task.board or make_board(rng.getrandbits(63), *task.dim_room, task.num_boxes)
        except ValueError as error:
            raise DataError(str(error)) from None
        return Level(Room(board), task.max_steps, self.conform is not None)
