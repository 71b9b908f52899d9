"""Hypotheses about how tokens were drawn, from the tokens themselves: their log probabilities may hide it."""

from __future__ import annotations

import numpy as np

from gym_llm.evaluation.drift.causes import Finding
from gym_llm.evaluation.drift.recompute import SampledTokens
from gym_llm.evaluation.drift.renormalise import at_temperature, kept_mass

_GAIN = 10.0  # nats of log likelihood: e^-10 by chance
_FACTOR = 1.2  # of the temperature: smaller differences do no harm
_TEMPERATURES = np.geomspace(0.3, 2.0, 40)
_TOP_PS = (0.5, 0.7, 0.8, 0.9, 0.95)


def drawn_otherwise(tokens: SampledTokens) -> Finding | None:
    """Return the finding that tokens were not drawn as their requests say; None if they may have been.

    The temperature is the one under which the tokens are most likely. With top-p, no token lies outside its set, though
    some should.
    """

    def likelihood(temperature: float) -> float:
        return float(at_temperature(tokens, tokens.temperature * temperature).middle.sum())

    asked = likelihood(1.0)
    factors = {float(each): likelihood(float(each)) - asked for each in _TEMPERATURES}
    factor = max(factors, key=factors.__getitem__)
    gains = {top_p: _top_p_gain(tokens, top_p) for top_p in _TOP_PS}
    top_p = max(gains, key=gains.__getitem__)
    if gains[top_p] > max(_GAIN, factors[factor]):
        text = f"The tokens were drawn with top-p of about {top_p:g}, but the recorded values are among all tokens."
        return Finding("top-p renormalisation", text, 0.0)
    if factors[factor] > _GAIN and not 1 / _FACTOR < factor < _FACTOR:
        label = float(np.median(tokens.temperature))
        text = f"The tokens were drawn at temperature {label * factor:.2g}, but the recorded values are at {label:.2g}."
        return Finding("temperature", text, 0.0)
    return None


def _top_p_gain(tokens: SampledTokens, top_p: float) -> float:
    """The log likelihood that top-p adds; minus infinity if a token lies outside."""
    kept = kept_mass(tokens, top_p=top_p, power=1 / tokens.temperature)
    probabilities = np.exp(tokens.top / tokens.temperature[:, None])
    own = np.exp(tokens.scored / tokens.temperature)
    before = np.where(tokens.top > tokens.scored[:, None] + 1e-4, probabilities, 0.0).sum(1)
    total = own / np.exp(at_temperature(tokens, tokens.temperature).middle).clip(1e-300)
    if ((before / total >= top_p + 1e-3) & ~np.isnan(kept)).any():
        return -np.inf
    return float(-np.nansum(kept))
