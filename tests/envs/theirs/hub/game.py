"""A number is guessed: what both servers of this folder play."""

from __future__ import annotations

import os


class Higher:
    """A number below LIMIT, drawn by the seed."""

    def __init__(self, seed: int) -> None:
        self._number = seed % int(os.environ.get("LIMIT", "10"))

    def guess(self, number: int) -> tuple[str, float, bool]:
        """Return what is said, the reward, and whether the game is over."""
        if number == self._number:
            return "yes", 1.0, True
        return "higher" if number < self._number else "lower", 0.25, False
