"""Log probabilities after a temperature, top-p or top-k, from the most likely tokens of each position.

An engine gives the 20 most likely tokens, so the rest of the distribution is known by its mass only. Where that leaves
a value open, functions here return the lowest and the highest that it can have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gym_llm.evaluation.drift.recompute import Floats, SampledTokens

_VOCABULARY = 1 << 18
"""Tokens that a vocabulary has at most."""

_LEAST = 1e-300
_ROUNDING = 1e-6


class Range(NamedTuple):
    """The lowest and the highest log probability that each token can have."""

    low: Floats
    high: Floats

    @property
    def middle(self) -> Floats:
        """A value between the two."""
        return (self.low + self.high) / 2

    def distance(self, recorded: Floats) -> Floats:
        """Return how far recorded values are outside, with the sign of `recorded - computed`; 0 inside."""
        return recorded - np.clip(recorded, self.low, self.high)


def at_temperature(tokens: SampledTokens, temperature: Floats | float) -> Range:
    """Return the log probabilities at a temperature, among all tokens."""
    power = np.broadcast_to(1 / np.asarray(temperature, float), len(tokens))
    is_own = np.isclose(power, 1.0)
    scaled = tokens.top * power[:, None]
    shift = np.maximum(scaled.max(1), tokens.scored * power)
    known = np.exp(scaled - shift[:, None]).sum(1)
    # The rest is between two extremes: few tokens, each as likely as the last known one, or all of the vocabulary.
    last = tokens.top[:, -1]
    rests = []
    for mass in rest_mass(tokens):
        with np.errstate(divide="ignore", invalid="ignore"):
            few = np.where(mass > 0, np.log(mass) - last + last * power, -np.inf)
            many = np.where(mass > 0, power * np.log(mass) + (1 - power) * np.log(_VOCABULARY), -np.inf)
        rests += [few, many]
    ends = np.sort(np.stack(rests), axis=0)[[0, -1]]
    # The sampled token itself is one of the rest where it is not among the known ones.
    is_known = (tokens.top_ids == tokens.ids[:, None]).any(1)
    least = np.where(is_known, -np.inf, tokens.scored * power)
    low_rest, high_rest = np.maximum(ends[0], least), np.maximum(ends[1], least)
    with np.errstate(divide="ignore"):
        totals = [shift + np.log(known + np.exp(rest - shift)) for rest in (high_rest, low_rest)]
    low, high = (np.where(is_own, tokens.scored, tokens.scored * power - total) for total in totals)
    return Range(low, high)


def rest_mass(tokens: SampledTokens) -> tuple[Floats, Floats]:
    """Return the least and the greatest probability of all but the most likely tokens: float32 rounds their sum."""
    mass = 1 - np.exp(tokens.top).sum(1)
    return np.maximum(mass - _ROUNDING, 0.0), np.maximum(mass, 0.0) + _ROUNDING


def kept_mass(tokens: SampledTokens, *, top_p: float = 1.0, top_k: int = 0, power: Floats | float = 1.0) -> Floats:
    """Return the log of the mass that top-p or top-k keep; NaN where more tokens than are known decide it.

    Args:
        tokens: The tokens.
        top_p: The smallest set of the most probable tokens that reaches this mass is kept.
        top_k: This many of the most probable tokens are kept; 0 for all.
        power: One over the temperature, which comes first.
    """
    scaled = tokens.top * np.broadcast_to(np.asarray(power, float), len(tokens))[:, None]
    middle = at_temperature(tokens, 1 / np.asarray(power, float)).middle
    total = np.where(np.isclose(power, 1.0), 0.0, tokens.scored * power - middle)
    probabilities = np.exp(scaled - total[:, None])
    sums = probabilities.cumsum(1)
    if top_k:
        if top_k > tokens.top.shape[1]:
            return np.full(len(tokens), np.nan)
        return np.log(np.minimum(sums[:, top_k - 1], 1.0).clip(_LEAST))
    enough = sums >= top_p
    kept = np.take_along_axis(sums, enough.argmax(1)[:, None], 1)[:, 0]
    return np.where(enough.any(1), np.log(np.minimum(kept, 1.0).clip(_LEAST)), np.nan)
