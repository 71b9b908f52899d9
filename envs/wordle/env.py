"""Wordle: find a secret word, guess by guess (NeMo Gym's `wordle`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import LocalPath
from gym_llm.envs.wordle.game import Game
from gym_llm.errors import DataError
from gym_llm.grading.call_matching import call_items
from gym_llm.types import Item, Row

_SYSTEM = (
    "You play Wordle: find a secret word of five letters with six guesses. Call submit_guess for each. Its feedback "
    "has a mark for each letter: G if it is in its place, Y if it is elsewhere in the word, _ if it is not in it. When "
    "the game is over, say so without a call."
)
_REQUESTS = ("Make your first guess.", "What is your first guess?", "Begin.", "Find the word.")


class Wordle(NemoCompatible):
    """Find a word; a win is worth 2.0 less 0.2 for each guess before it, and less what careless guesses cost.

    Details: `game_outcome` (`win`, `loss`, `incomplete`), `won`, `turns_used`, `turns_if_won`.

    Args:
        words: A file of the words that may be guessed, one a line; None to accept all letters.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        DataError: If the file cannot be read.
    """

    reverify_mode = "unsupported"
    default_max_turns = 30
    accepted_findings = {
        "range": "NeMo Gym's rule: a win with the second guess is worth 1.8",
        "near miss/another word in a call": "the guess before the right one may be any word",
    }
    metrics = {"won": Metric("rate"), "turns_if_won": Metric(higher_is_better=False)}

    class Task(BaseTask):
        """The secret word, and the number of guesses."""

        custom_target: str = Field(min_length=1)
        word_length: int = 5
        max_turns: int = Field(6, ge=1)

        @model_validator(mode="after")
        def _is_a_word(self) -> Wordle.Task:
            target = self.custom_target
            if len(target) != self.word_length or not (target.isascii() and target.isalpha()):
                raise ValueError(f"custom_target must have {self.word_length} letters, got {target[:40]!r}")
            return self

    class Config(NemoCompatible.Config):
        """The words that may be guessed."""

        words: LocalPath | None = None

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._words = None if self.config.words is None else read_words(self.config.words)

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw a word."""
        words = own_words()
        target = words[rng.integers(len(words))]
        row = self.row(_REQUESTS[rng.integers(len(_REQUESTS))], custom_target=target)
        row["responses_create_params"]["input"].insert(0, {"role": "system", "content": _SYSTEM})
        return row

    def setup(self, task: Task) -> Game:
        """Begin a game."""
        return Game(task.custom_target.lower(), task.max_turns, self._words)

    @tool
    def submit_guess(self, state: Game, guess: str) -> dict[str, Any]:
        """Submit a guess. Returns a mark for each letter: G in its place, Y elsewhere in the word, _ not in it.

        Args:
            guess: A word.
        """
        return state.guess(guess)

    @tool
    def check_word_validity(self, state: Game, word: str) -> dict[str, Any]:
        """Check whether a word may be guessed, without using a guess.

        Args:
            word: A word.
        """
        problem = state.problem(word.lower().strip())
        return {"valid": problem is None, "reason": problem or "Valid word"}

    @tool
    def get_game_state(self, state: Game) -> dict[str, Any]:
        """Read the guesses so far, their feedback, and what is known of the word."""
        return state.state()

    def oracle(self, task: Task) -> list[Item]:
        """Return another word and then the target, which is worth more than the target at once."""
        words = own_words() if self._words is None else sorted(self._words)
        target = task.custom_target.lower()
        first = next(word for word in words if len(word) == len(target) and word != target)
        return call_items([("submit_guess", {"guess": word}) for word in (first, target)])

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Return what the game is worth."""
        game: Game = episode.state
        outcome = "win" if game.is_won else "loss" if game.is_over else "incomplete"
        details: dict[str, Any] = {"game_outcome": outcome, "won": game.is_won, "turns_used": game.turn}
        return Verdict(game.reward, details | ({"turns_if_won": game.turn} if game.is_won else {}))


@cache
def own_words() -> list[str]:
    """Return the words that tasks without a file are drawn from."""
    return Path(__file__).with_name("words.txt").read_text("utf-8").split()


@cache
def read_words(path: str) -> frozenset[str]:
    """Return the words of a file in lower case; lines that begin with # are left out.

    Raises:
        DataError: If it cannot be read, or has no words.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"words: {path} cannot be read ({type(error).__name__}).") from None
    words = frozenset(line.strip().lower() for line in lines if line.strip() and not line.startswith("#"))
    if not words:
        raise DataError(f"words: {path} must have a word in each line.")
    return words
