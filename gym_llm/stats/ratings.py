"""Ratings of players from the results of their games: the Bradley-Terry model, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

ELO = 400 / math.log(10)
"""Points of a rating for one unit of log odds: 400 points are odds of ten to one, as in chess."""

_STEPS = 100
_CLOSE = 1e-10


@dataclass(frozen=True, slots=True)
class Rating:
    """A player's rating.

    Attributes:
        name: The player.
        value: Elo points; the mean of all players is 0.
        low: Lower end of the interval.
        high: Upper end of the interval.
        games: Games that the player has played.
    """

    name: str
    value: float
    low: float
    high: float
    games: float


def bradley_terry(
    results: Iterable[tuple[str, str, float]], *, prior: float = 1.0, level: float = 0.95
) -> list[Rating]:
    """Rate players by their games against each other: the log odds of a win are the difference of two ratings.

    From Bradley and Terry 1952, "Rank analysis of incomplete block designs". The ratings are the most likely ones,
    found by Newton's method. The intervals are Wald's, from the inverse of the information matrix.

    Args:
        results: Triples (player, other player, score of the first): 1.0 for a win, 0.5 for a draw, 0.0 for a loss.
        prior: Draws that each player is taken to have played against an average player. It keeps the rating of a
            player that has won or lost every game finite. More than 0.
        level: The share of intervals that cover the truth.

    Returns:
        A rating for each player, the best first.

    Raises:
        ValueError: If a score is not from 0 to 1, a player plays against itself, or an argument is invalid.

    >>> best, worst = bradley_terry([("a", "b", 1.0)] * 30 + [("a", "b", 0.0)] * 10)
    >>> (best.name, round(best.value), round(best.low), round(best.high), best.games)
    ('a', 94, 32, 155, 40.0)
    """
    if not prior > 0 or not 0 < level < 1:
        raise ValueError(f"prior is above 0 and level between 0 and 1; got {prior!r} and {level!r}.")
    played = list(results)
    names = sorted({name for one, other, _ in played for name in (one, other)})
    place = {name: index for index, name in enumerate(names)}
    wins = np.zeros((len(names), len(names)))
    for one, other, score in played:
        if one == other or not 0 <= score <= 1:
            raise ValueError(f"A result is two players and a score from 0 to 1; got {(one, other, score)!r}.")
        wins[place[one], place[other]] += score
        wins[place[other], place[one]] += 1 - score
    values, covariance = _fit(wins, prior)
    games = (wins + wins.T).sum(axis=1)
    margin = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(np.diag(covariance))
    ratings = [
        Rating(name, ELO * value, ELO * (value - width), ELO * (value + width), float(count))
        for name, value, width, count in zip(names, values.tolist(), margin.tolist(), games, strict=True)
    ]
    return sorted(ratings, key=lambda rating: -rating.value)


def win_probability(one: float, other: float) -> float:
    """Return the expected score of a player against another, by their ratings in Elo points.

    >>> round(win_probability(400, 0), 3)
    0.909
    """
    return 0.5 + 0.5 * math.tanh((one - other) / (2 * ELO))


def _fit(wins: NDArray[np.float64], prior: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ratings in log odds, with mean 0, and their covariance."""
    games = wins + wins.T
    values: NDArray[np.float64] = np.zeros(len(wins))
    information = np.eye(len(wins))
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(values[None, :] - values[:, None]))
        average = 1 / (1 + np.exp(-values))
        slope = (wins - games * expected).sum(axis=1) + prior * (0.5 - average)
        curvature = games * expected * (1 - expected)
        information = np.diag(curvature.sum(axis=1) + prior * average * (1 - average)) - curvature
        change = np.linalg.solve(information, slope)
        values = values + np.clip(change, -2.0, 2.0)
        if np.abs(change).max(initial=0.0) < _CLOSE:
            break
    centre = np.eye(len(wins)) - 1 / max(1, len(wins))
    return values - values.mean() if len(values) else values, centre @ np.linalg.inv(information) @ centre.T


def scores_of(rewards: Sequence[float]) -> list[float]:
    """Return each player's mean score against the others of a game: 1.0 for more reward, 0.5 for as much, else 0.0.

    >>> scores_of([2.0, -1.0, -1.0])
    [1.0, 0.25, 0.25]
    """
    others = max(1, len(rewards) - 1)
    return [
        sum(0.5 * ((mine > theirs) - (mine < theirs) + 1) for place, theirs in enumerate(rewards) if place != own)
        / others
        for own, mine in enumerate(rewards)
    ]
