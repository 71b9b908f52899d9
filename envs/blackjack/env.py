"""Blackjack: hit or stand, until the hand is over (NeMo Gym's `blackjack`)."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gym_llm.core.text_game import Move, SeededTask, TextGame, seeded_row
from gym_llm.types import Item, Row

Rank = Literal["2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A"]
RANKS: tuple[Rank, ...] = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
WithoutAction = Literal["stand", "lose", "ask"]
_ACTION = re.compile(r"<action>\s*(hit|stand)\s*</action>", re.IGNORECASE)
_ASK = "Respond with <action>hit</action> or <action>stand</action>."


def value(hand: list[Rank]) -> int:
    """Return the value of a hand: an ace is 11, or 1 if the hand would exceed 21.

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
    """The player's and the dealer's cards; `stacked` cards are dealt first, then each rank is equally likely."""

    rng: random.Random
    stacked: list[Rank]
    without_action: WithoutAction = "lose"

    def __post_init__(self) -> None:
        self.player = [self.deal(), self.deal()]
        self.dealer = [self.deal(), self.deal()]

    def deal(self) -> Rank:
        """Return the next card."""
        return self.stacked.pop(0) if self.stacked else self.rng.choice(RANKS)

    def observation(self) -> str:
        """Return the player's cards and the dealer's first card as a text."""
        return f"Your hand: {_shown(self.player)} = {value(self.player)}\nDealer shows: {self.dealer[0]}\n{_ASK}"

    def play(self, text: str) -> Move | None:
        """Hit or stand."""
        action = _ACTION.search(text)
        if action is None and self.without_action != "stand":
            lost = {"result": "forfeit", "player": _shown(self.player), "value": value(self.player)}
            return None if self.without_action == "ask" else Move(-1.0, True, lost)
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
    """Play one hand against the dealer: 1.0 for a win, 0.0 for a draw, -1.0 for a loss."""

    default_max_turns = 5
    accepted_findings = {
        **dict.fromkeys(
            ("near miss", "all options"), "NeMo Gym's rule: the first action of a turn counts, which may win"
        ),
        "farming": "NeMo Gym's rule: turns that run out are worth 0.0, which is more than a loss",
    }

    class Task(SeededTask):
        """The seed of a hand, and perhaps its first cards."""

        cards: list[Rank] = []
        """Cards dealt first: two to the player, two to the dealer, then one by one."""

    def generate(self, rng: np.random.Generator) -> Row:
        """Return a row with a new seed."""
        system = "You play Blackjack. Think briefly, then answer with <action>hit</action> or <action>stand</action>."
        return seeded_row(int(rng.integers(2**31)), system, "Deal, please.")

    def start(self, task: Task, rng: random.Random) -> Hand:  # type: ignore[override]
        """Deal."""
        without_action: WithoutAction = "stand" if self.conform else "ask" if self.config.no_move == "ask" else "lose"
        return Hand(rng, list(task.cards), without_action)

    def oracle(self, task: Task) -> list[list[Item]] | None:
        """Return the turns that win the hand, found by playing it; None if it cannot be won."""
        if task.seed is None:
            return None
        for hits in range(self.max_turns):
            hand = self.start(task, random.Random(task.seed))
            actions = ["hit"] * hits + ["stand"]
            moves = [move for action in actions if (move := hand.play(f"<action>{action}</action>"))]
            if moves[-1].reward == 1.0 and not any(move.over for move in moves[:-1]):
                texts = (f"<action>{action}</action>" for action in actions)
                return [[{"type": "message", "role": "assistant", "content": text}] for text in texts]
        return None
