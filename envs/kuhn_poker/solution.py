"""The exact solution of Kuhn poker for two players: values, best responses, exploitability."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import TypeAlias

from gym_llm.envs.kuhn_poker.env import BET, PASS, Table

Strategy: TypeAlias = Mapping[tuple[int, tuple[str, ...]], float]
"""The probability of a bet, by the player's card and what everybody did before."""

VALUE = -1 / 18
"""What the first player wins a hand, in chips, if both play best."""

_DEALS = list(permutations((1, 2, 3), 2))


def information_sets(player: int) -> list[tuple[int, tuple[str, ...]]]:
    """Return the six places where a player (0 or 1) decides.

    >>> information_sets(1)[:2]
    [(1, ('pass',)), (1, ('bet',))]
    """
    histories = ((), (PASS, BET)) if player == 0 else ((PASS,), (BET,))
    return [(card, history) for card in (1, 2, 3) for history in histories]


def equilibrium(alpha: float = 1 / 3) -> dict[tuple[int, tuple[str, ...]], float]:
    """Return one of the equilibria; `alpha`, 0 to 1/3, is how often the first player bluffs with the lowest card."""
    if not 0 <= alpha <= 1 / 3:
        raise ValueError(f"alpha is a number from 0 to 1/3; got {alpha!r}.")
    first: dict[tuple[int, tuple[str, ...]], float] = {(1, ()): alpha, (2, ()): 0.0, (3, ()): 3 * alpha}
    first |= {(1, (PASS, BET)): 0.0, (2, (PASS, BET)): alpha + 1 / 3, (3, (PASS, BET)): 1.0}
    second: dict[tuple[int, tuple[str, ...]], float] = {(1, (PASS,)): 1 / 3, (2, (PASS,)): 0.0, (3, (PASS,)): 1.0}
    second |= {(1, (BET,)): 0.0, (2, (BET,)): 1 / 3, (3, (BET,)): 1.0}
    return first | second


def value(strategy: Strategy) -> float:
    """Return what the first player wins a hand, in chips, when both play a strategy.

    >>> round(value(equilibrium()) * 18, 12)
    -1.0
    """
    return sum(_expected(Table(list(deal)), strategy) for deal in _DEALS) / len(_DEALS)


def best_response_value(strategy: Strategy, player: int) -> float:
    """Return what a player (0 or 1) wins a hand at best against the strategy of the other, in chips.

    >>> round(best_response_value(equilibrium(0.2), 0) * 18, 12)
    -1.0
    """
    best = -float("inf")
    places = information_sets(player)
    for number in range(1 << len(places)):
        pure = {place: float(number >> bit & 1) for bit, place in enumerate(places)}
        first = value({**strategy, **pure})
        best = max(best, first if player == 0 else -first)
    return best


def exploitability(strategy: Strategy) -> float:
    """Return what a perfect opponent wins a hand against a strategy, in chips, as the mean over both seats; 0 at best.

    This is half of NashConv, as OpenSpiel computes it.

    >>> round(exploitability(equilibrium()), 12), round(exploitability(dict.fromkeys(equilibrium(), 0.5)), 4)
    (0.0, 0.4583)
    """
    return (best_response_value(strategy, 0) + best_response_value(strategy, 1)) / 2


def _expected(table: Table, strategy: Strategy) -> float:
    """What the first player wins from here."""
    mover = table.mover
    if mover is None:
        return table.rewards()[0]
    bets = strategy[table.cards[mover], tuple(table.history)]
    total = 0.0
    for move, share in ((BET, bets), (PASS, 1 - bets)):
        if share:
            total += share * _expected(Table(table.cards, [*table.history, move]), strategy)
    return total
