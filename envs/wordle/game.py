"""A game of Wordle: guesses, feedback, and what both cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_REPEATED, _GREEN, _YELLOW, _ELIMINATED, _INVALID = 0.2, 0.05, 0.03, 0.02, 0.02
_WIN, _PER_TURN, _LEAST_WIN = 2.0, 0.2, 0.1
_LUCKY = 3  # the turn as which a win with the first guess counts


def feedback(guess: str, target: str) -> str:
    """Return a mark for each letter: G in its place, Y elsewhere in the word, _ not in it or not that often.

    >>> feedback("allee", "angle"), feedback("eerie", "angle")
    ('GY__G', '____G')
    """
    left = [letter for letter, other in zip(target, guess, strict=True) if letter != other]
    marks = []
    for letter, other in zip(guess, target, strict=True):
        if letter == other:
            marks.append("G")
        elif letter in left:
            left.remove(letter)
            marks.append("Y")
        else:
            marks.append("_")
    return "".join(marks)


@dataclass
class Game:
    """A game under way, and what the player knows.

    Attributes:
        target: The secret word, in lower case.
        max_turns: The number of guesses.
        words: The words that may be guessed; None for all sequences of letters.
        turn: Guesses so far, invalid ones included.
        total: The sum of win and penalties.
    """

    target: str
    max_turns: int
    words: frozenset[str] | None
    turn: int = 0
    guesses: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    greens: dict[int, str] = field(default_factory=dict)
    yellows: set[str] = field(default_factory=set)
    eliminated: set[str] = field(default_factory=set)
    is_won: bool = False
    total: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the word is found, or all guesses are used."""
        return self.is_won or self.turn >= self.max_turns

    @property
    def reward(self) -> float:
        """The reward if the game ends here; 0.0 unless it is won."""
        return self.total if self.is_won else 0.0

    def problem(self, word: str) -> str | None:
        """Return why a text is not a word of this game; None for a word."""
        if len(word) != len(self.target):
            return f"Guess must be {len(self.target)} letters. Got {len(word)} letters."
        is_word = word in self.words if self.words is not None else word.isascii() and word.isalpha()
        return None if is_word or word == self.target else f"'{word}' is not a valid English word."

    def guess(self, text: str) -> dict[str, Any]:
        """Play a guess, and return the answer to the player."""
        if self.is_over:
            return self._answer(False, error="Game is already over.")
        word = text.lower().strip()
        self.turn += 1
        if problem := self.problem(word):
            self.total -= _INVALID
            return self._answer(False, error=problem)
        marks = feedback(word, self.target)
        if word == self.target:
            self.is_won = True
            turn = _LUCKY if self.turn == 1 else self.turn
            self.total = max(_LEAST_WIN, self.total + _WIN - _PER_TURN * (turn - 1))
        else:
            self.total -= self._penalty(word)
            self._learn(word, marks)
        self.guesses.append(word)
        self.marks.append(marks)
        return self._answer(True, feedback=marks)

    def state(self) -> dict[str, Any]:
        """Return all that the player knows."""
        return {
            "turn": self.turn,
            "turns_remaining": self.max_turns - self.turn,
            "guesses": [word.upper() for word in self.guesses],
            "feedback_history": self.marks,
            "known_greens": {str(place + 1): letter.upper() for place, letter in self.greens.items()},
            "known_yellows": sorted(letter.upper() for letter in self.yellows),
            "eliminated_letters": sorted(letter.upper() for letter in self.eliminated),
            "game_over": self.is_over,
            "won": self.is_won,
        }

    def _answer(self, is_valid: bool, **fields: str) -> dict[str, Any]:
        told = self.target.upper() if self.is_over and (is_valid or "already" in fields["error"]) else None
        return {
            "valid": is_valid,
            "feedback": None,
            "won": self.is_won,
            "game_over": self.is_over,
            "turn": self.turn,
            "turns_remaining": 0 if self.is_over else self.max_turns - self.turn,
            "error": None,
            "target_word": told,
            **fields,
        }

    def _penalty(self, word: str) -> float:
        """Return what a guess costs that ignores what the player knows."""
        penalty = _REPEATED * (word in self.guesses)
        penalty += _GREEN * sum(word[place] != letter for place, letter in self.greens.items())
        penalty += _YELLOW * (bool(self.yellows) and self.yellows.isdisjoint(word))
        return penalty + _ELIMINATED * sum(letter in self.eliminated for letter in word)

    def _learn(self, word: str, marks: str) -> None:
        self.greens |= {place: word[place] for place, mark in enumerate(marks) if mark == "G"}
        self.yellows |= {letter for letter, mark in zip(word, marks, strict=True) if mark == "Y"}
        missing = {letter for letter, mark in zip(word, marks, strict=True) if mark == "_"}
        self.eliminated |= missing - self.yellows - set(self.greens.values())
