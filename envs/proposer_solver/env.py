"""Proposer and solver: one seat makes problems that the others can just about solve."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from gym_llm import BaseTask, Episode, IllegalMove, MultiAgentEnv, Verdict
from gym_llm.grading.quotations import meant_words
from gym_llm.types import Row

_PROPOSER = "proposer"
_RULES = (
    "Make a problem for other players: an expression of whole numbers with +, -, * and brackets, at most {characters} "
    "characters, in the tag <problem>12 + 3 * 4</problem>. You win if some of the others solve it and some do not."
)
_PROBLEM = re.compile(r"<problem>([^<>]*)</problem>", re.IGNORECASE)
_EXPRESSION = re.compile(r"[0-9_ +*()-]+", re.ASCII)
_NUMBER = re.compile(r"-?\d[\d,]*")
_OPERATIONS: dict[type[Any], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


@dataclass
class Problem:
    """A problem.

    Attributes:
        text: The expression; empty before it is made.
        answer: Its value.
        solved: Whether each solver has solved it, by seat.
    """

    text: str = ""
    answer: int = 0
    solved: dict[str, bool] = field(default_factory=dict)


class ProposerSolver(MultiAgentEnv[BaseTask, Problem]):
    """Propose a sum, or solve one; the answer is computed, so no data and no judge are needed.

    After Zhao et al. 2025, "Absolute Zero" (arXiv 2505.03335), section 3.1: a solver gets 1.0 if it is right, else
    0.0. The proposer gets 1 - p, where p is the share of solvers that are right, and 0.0 if all or none are. The
    solvers act at the same time. Details: `problem`, `expected_answer`, `solved_share`.

    Args:
        solvers: How many solve each problem; their seats are `solver_0`, `solver_1` and so on.
        max_characters: The length of a problem at most.
        **kwargs: See `MultiAgentEnv`.
    """

    default_max_turns = 4
    forfeit_rewards = (-1.0, 0.0)
    accepted_findings: ClassVar[dict[str, str]] = {
        "range": "a proposal that cannot be computed is worth less than nothing",
        "prompt echoed": "the rules show a problem, and the attack plays every seat",
    }

    class Config(MultiAgentEnv.Config):
        """The number of solvers, and the size of problems."""

        solvers: int = Field(4, ge=1, le=64)
        max_characters: int = Field(64, ge=1, le=1000)

    config: Config

    @property
    def possible_agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """The proposer, then the solvers."""
        return (_PROPOSER, *(f"solver_{number}" for number in range(self.config.solvers)))

    def generate(self, rng: np.random.Generator) -> Row:
        """Return a row; its number lets problems differ."""
        return self.row([], number=int(rng.integers(1000)))

    def setup(self, task: BaseTask) -> Problem:
        """Begin without a problem."""
        return Problem()

    def seat_opening(self, task: BaseTask, state: Problem, seat: str) -> str | None:
        """Show the proposer the rules; solvers see the problem alone."""
        if seat != _PROPOSER:
            return None
        number = getattr(task, "number", None)
        hint = "" if number is None else f" Use the number {number}."
        return _RULES.format(characters=self.config.max_characters) + hint

    def next_seats(self, task: BaseTask, state: Problem) -> list[str]:
        """Return the proposer, then all solvers."""
        if not state.text:
            return [_PROPOSER]
        return [] if state.solved else list(self.possible_agents[1:])

    def seat_turn(self, task: BaseTask, state: Problem, seat: str) -> str | None:
        """Show a solver the problem."""
        return None if seat == _PROPOSER else f"What is {state.text}? End with the number."

    def legal_moves(self, task: BaseTask, state: Problem, seat: str) -> list[str]:
        """Return a few problems for random play, or answers near the right one."""
        if seat == _PROPOSER:
            return [f"<problem>{one} + {one} * 2</problem>" for one in range(1, 10)]
        return [str(state.answer + off) for off in (-1, 0, 1)]

    def play(self, task: BaseTask, state: Problem, moves: dict[str, Episode[Problem]]) -> None:
        """Take the problem, or the solvers' answers."""
        if _PROPOSER in moves:
            found = _PROBLEM.findall(moves[_PROPOSER].answer)
            if not found:
                raise IllegalMove("There is no <problem>…</problem> in your answer.")
            text = " ".join(found[-1].split())
            state.answer = evaluate(text, self.config.max_characters)
            state.text = text
        else:
            said = {seat: meant_words(episode.answer, episode) for seat, episode in moves.items()}
            state.solved = {seat: _last_number(text) == state.answer for seat, text in said.items()}

    def verify_seats(self, task: BaseTask, episodes: dict[str, Episode[Problem]]) -> dict[str, float | Verdict]:
        """Pay solvers for right answers, and the proposer for problems that some solve and some do not."""
        state: Problem = episodes[_PROPOSER].state
        if not state.solved:
            return dict.fromkeys(episodes, 0.0)
        share = sum(state.solved.values()) / len(state.solved)
        details = {"problem": state.text, "expected_answer": state.answer, "solved_share": share}
        rewards = {seat: float(right) for seat, right in state.solved.items()}
        rewards[_PROPOSER] = 1 - share if 0 < share < 1 else 0.0
        return {seat: Verdict(rewards[seat], dict(details)) for seat in episodes}


def evaluate(text: str, most: int = 64) -> int:
    """Return the value of an expression of whole numbers with +, -, * and brackets.

    Raises:
        IllegalMove: If it is anything else, is one number alone, or is too long.

    >>> evaluate("12 + 3 * (4 - 6)")
    6
    """
    if len(text) > most:
        raise IllegalMove(f"The problem has {len(text)} characters; {most} are the limit.")
    if not _EXPRESSION.fullmatch(text):  # a comment in it would be a message to the solvers
        raise IllegalMove("The problem has something other than whole numbers, +, -, * and brackets.")
    try:
        tree = ast.parse(text, mode="eval").body
        if not any(isinstance(node, ast.BinOp) for node in ast.walk(tree)):
            raise IllegalMove("The problem has nothing to compute.")
        return _value(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise IllegalMove("The problem is not an expression.") from None


def _value(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    raise IllegalMove("The problem has something other than whole numbers, +, -, * and brackets.")


def _last_number(text: str) -> int | None:
    found = _NUMBER.findall(text[-2000:])
    digits = found[-1].replace(",", "") if found else ""
    return int(digits) if 0 < len(digits) <= 1001 else None
