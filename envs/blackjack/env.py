"""Blackjack: hit or stand, until the hand is over (NeMo Gym's `blackjack`)."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gym_llm.core.text_game import Move, SeededTask, TextGame, seeded_row
from gym_llm.types import Row

Rank = Literal["2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A"]
RANKS: tuple[Rank, ...] = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
_ACTION = re.compile(r"<action>\s*(hit|stand)\s*</action>", re.IGNORECASE)
_ASK = "Respond with <action>hit</action> or <action>stand</action>."


def value(hand: list[Rank]) -> int:
    """A hand's value: an ace is 11, or 1 where that would be too much.

    >>> value(["A", "K"]), value(["A", "A", "9"]), value(["J", "8", "5"])
    (21, 21, 23)
    """
    total = sum(11 if rank == "A" else 10 if rank in ("J", "Q", "K") else int(rank) for rank in hand)
    for _ in range(hand.count("A")):
        if total > 21:
            total -= 10
    return total


def _shown(hand: list[Rank]) -> str:
    return f"[{', '.join(hand)}]"


@dataclass
class Hand:
    """The player's cards and the dealer's; `stacked` are dealt first, then any rank is as likely as another."""

    rng: random.Random
    stacked: list[Rank]

    def __post_init__(self) -> None:
        self.player = [self.deal(), self.deal()]
        self.dealer = [self.deal(), self.deal()]

    def deal(self) -> Rank:
        """The next card."""
        return self.stacked.pop(0) if self.stacked else self.rng.choice(RANKS)

    def observation(self) -> str:
        """The player's cards, and the dealer's first."""
        return f"Your hand: {_shown(self.player)} = {value(self.player)}\nDealer shows: {self.dealer[0]}\n{_ASK}"

    def play(self, text: str) -> Move:
        """Hit or stand; a text that says neither stands."""
        action = _ACTION.search(text)
        if action is not None and action[1].lower() == "hit":
            self.player.append(self.deal())
            if (points := value(self.player)) > 21:
                return Move(-1.0, True, {"result": "bust", "player": _shown(self.player), "value": points})
            return Move(0.0, False)
        while value(self.dealer) < 17:
            self.dealer.append(self.deal())
        mine, theirs = value(self.player), value(self.dealer)
        won = theirs > 21 or mine > theirs
        details: dict[str, Any] = {
            "success": won,
            "result": "win" if won else "draw" if mine == theirs else "loss",
            "player": _shown(self.player),
            "player_value": mine,
            "dealer": _shown(self.dealer),
            "dealer_value": theirs,
        }
        return Move(1.0 if won else 0.0 if mine == theirs else -1.0, True, details)


class Blackjack(TextGame):
    """Play one hand against the dealer: 1.0 for a win, 0.0 for a draw, -1.0 for a loss.

    Args:
        **kwargs: As for every `TextGame`.
    """

    default_max_turns = 5

    class Task(SeededTask):
        """A hand."""

        cards: list[Rank] = []
        """What is dealt first: two cards to the player, two to the dealer, and then one by one."""

    def generate(self, rng: np.random.Generator) -> Row:
        """A hand of its own seed."""
        system = "You play Blackjack. Think briefly, then answer with <action>hit</action> or <action>stand</action>."
        return seeded_row(int(rng.integers(2**31)), system, "Deal, please.")

    def start(self, task: Task, rng: random.Random) -> Hand:  # type: ignore[override]
        """Deal."""
        return Hand(rng, list(task.cards))
