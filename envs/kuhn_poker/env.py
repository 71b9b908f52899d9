"""Kuhn poker: hidden cards, two seats or more, and an exact solution for two (`solution.py`)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from gym_llm import BaseTask, Episode, MultiAgentEnv, Verdict
from gym_llm.grading.quotations import meant_words
from gym_llm.judge.multi_agent_env import named_move
from gym_llm.types import Row

PASS, BET = "pass", "bet"
_RULES = (
    "You play Kuhn poker with {players} players. The deck has {cards} cards, 1 to {cards}; each player holds one and "
    "paid one chip. In turn, a player may pass, or bet one chip. After a bet each other player bets a chip, too, or "
    "passes and is out. The highest card still in wins all chips. Answer pass or bet."
)


@dataclass
class Table:
    """A hand.

    Attributes:
        cards: Each player's card, from 1.
        history: What each player did, in order.
    """

    cards: list[int]
    history: list[str] = field(default_factory=list)

    @property
    def bettor(self) -> int | None:
        """The number of the first player who bet; None without a bet."""
        return self.history.index(BET) if BET in self.history else None

    @property
    def mover(self) -> int | None:
        """The number of the player who acts; None when the hand is over.

        >>> [Table([1, 2], moves).mover for moves in ([], ["pass"], ["pass", "pass"], ["pass", "bet"], ["bet", "bet"])]
        [0, 1, None, 0, None]
        """
        players, acted = len(self.cards), len(self.history)
        last = players if self.bettor is None else self.bettor + players
        return acted % players if acted < last else None

    def rewards(self) -> list[float]:
        """Return what each player has won, in chips, less what they paid; they add up to 0.

        >>> Table([1, 3, 2], ["pass", "bet", "pass", "bet"]).rewards()
        [-2.0, 3.0, -1.0]
        """
        players = len(self.cards)
        bets = {place % players for place, move in enumerate(self.history) if move == BET}
        still_in = bets or set(range(players))
        best = max(still_in, key=self.cards.__getitem__)
        paid = [1.0 + (player in bets) for player in range(players)]
        return [sum(paid) - paid[player] if player == best else -paid[player] for player in range(players)]


class KuhnTask(BaseTask):
    """A deal.

    Attributes:
        seed: Seeds the cards; None for the environment's own generator.
        cards: Each player's card, from 1; None to deal them.
    """

    seed: int | None = None
    cards: list[int] | None = None


class KuhnPoker(MultiAgentEnv[KuhnTask, Table]):
    """Play one hand of Kuhn poker; the reward is the number of chips won or lost.

    With best play of both, the first of two players loses 1/18 chip a hand (Kuhn 1950, "A simplified two-person
    poker"). The record's details have all `cards` and the `history`.

    Args:
        players: How many play, 2 to 10; the seats are `player_0`, `player_1` and so on.
        **kwargs: See `MultiAgentEnv`.
    """

    default_max_turns = 8
    forfeit_rewards = (-3.0, 0.0)
    accepted_findings: ClassVar[dict[str, str]] = {
        "range": "a reward is a number of chips",
    }

    class Config(MultiAgentEnv.Config):
        """The number of players."""

        players: int = Field(2, ge=2, le=10)

    config: Config

    @property
    def possible_agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the seats."""
        return tuple(f"player_{number}" for number in range(self.config.players))

    def generate(self, rng: np.random.Generator) -> Row:
        """Return a row with a new seed."""
        players = self.config.players
        rules = _RULES.format(players=players, cards=players + 1)
        return self.row([{"role": "system", "content": rules}], seed=int(rng.integers(2**31)))

    def setup(self, task: KuhnTask) -> Table:
        """Deal."""
        deck = list(range(1, self.config.players + 2))
        if (cards := task.cards) is not None:
            if len(cards) != self.config.players or len(set(cards)) != len(cards) or set(cards) - set(deck):
                raise ValueError(f"cards are {self.config.players} different ones from 1 to {len(deck)}.")
            return Table(list(cards))
        seed = int(self.np_random.integers(2**31)) if task.seed is None else task.seed
        return Table(random.Random(seed).sample(deck, self.config.players))

    def seat_opening(self, task: KuhnTask, state: Table, seat: str) -> str:
        """Show the seat its card."""
        return f"You are {seat}. Your card is {state.cards[_number(seat)]}."

    def next_seats(self, task: KuhnTask, state: Table) -> str | None:
        """Return the mover."""
        return None if state.mover is None else f"player_{state.mover}"

    def seat_turn(self, task: KuhnTask, state: Table, seat: str) -> str:
        """Say what everybody did."""
        players = self.config.players
        said = [f"player_{place % players}: {move}" for place, move in enumerate(state.history)]
        return f"{', '.join(said) or 'Nobody has acted yet'}. Pass or bet?"

    def legal_moves(self, task: KuhnTask, state: Table, seat: str) -> list[str]:
        """Return `pass` and `bet`."""
        return [PASS, BET]

    def play(self, task: KuhnTask, state: Table, moves: dict[str, Episode[Table]]) -> None:
        """Add the mover's action."""
        ((_, episode),) = moves.items()
        state.history.append(named_move(meant_words(episode.answer, episode), [PASS, BET]))

    def verify_seats(self, task: KuhnTask, episodes: dict[str, Episode[Table]]) -> dict[str, float | Verdict]:
        """Pay the chips; a hand that was cut off pays nothing."""
        table: Table = next(iter(episodes.values())).state
        rewards = table.rewards() if table.mover is None else [0.0] * len(table.cards)
        details: dict[str, Any] = {"cards": list(table.cards), "history": list(table.history)}
        return {seat: Verdict(reward, details) for seat, reward in zip(episodes, rewards, strict=True)}


def _number(seat: str) -> int:
    return int(seat.removeprefix("player_"))
