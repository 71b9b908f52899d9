"""Measures of drift: KL estimates, tails of ratios, effective sample size, and what truncation would cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gym_llm.evaluation.drift.recompute import Floats, Ints, SampledTokens
from gym_llm.trainers.shared.importance import importance

_TAILS = (1.1, 1.5, 2.0, 5.0)
_BOUNDS = (1.0, 2.0, 3.0, 5.0)
_QUANTILES = (0.001, 0.01, 0.05, 0.5, 0.95, 0.99, 0.999)
_MOST = 20.0  # natural log of a ratio, as in `importance`
_MOST_GROUPS = 64


def measures(residuals: Floats) -> dict[str, Any]:
    """Return the measures of residuals, `recorded - computed` log probabilities of sampled tokens.

    Returns:
        A dictionary with these keys:

        - `tokens`, `mean`, `mean_absolute`, `rms`, `largest`: the number of tokens, and figures of their residuals.
        - `kl_k1`, `kl_k3`: estimates of KL(sampler, trainer) in nats (http://joschu.net/blog/kl-approx.html).
        - `ratio_quantiles`: quantiles of trainer over sampler.
        - `ratio_tails`: the share of tokens whose ratio is above a number, or below one over it.
        - `effective_sample_size`: a share.
        - `truncated`: by bound C, the share of `tokens` that truncated importance sampling bounds. `mass` is the share
            of the sum of all ratios that it cuts.

    >>> measures(np.array([0.0, 0.0, -1.0, 0.0]))["truncated"]["2"]["tokens"]
    0.25
    """
    logs = np.clip(-residuals, -_MOST, _MOST)
    ratios = np.exp(logs)
    truncated = {}
    none, used = np.zeros((1, len(residuals))), np.ones((1, len(residuals)), np.int64)
    for bound in _BOUNDS:
        weights = importance(-residuals[None], none, used, highest=bound)
        cut = float((ratios.sum() - weights.weights.sum()) / ratios.sum())
        truncated[f"{bound:g}"] = {"tokens": weights.cut, "mass": max(cut, 0.0)}
    return {
        **short_measures(residuals),
        "ratio_quantiles": {f"{q:g}": float(np.quantile(ratios, q)) for q in _QUANTILES},
        "ratio_tails": {f"{tail:g}": float((np.abs(logs) > np.log(tail)).mean()) for tail in _TAILS},
        "effective_sample_size": weights.effective,
        "truncated": truncated,
    }


def short_measures(residuals: Floats) -> dict[str, Any]:
    """Return the first few of `measures`, for groups of tokens."""
    logs = np.clip(-residuals, -_MOST, _MOST)
    return {
        "tokens": len(residuals),
        "mean": float(residuals.mean()),
        "mean_absolute": float(np.abs(residuals).mean()),
        "rms": float(np.sqrt((residuals**2).mean())),
        "largest": float(np.abs(residuals).max()),
        "kl_k1": float(residuals.mean()),
        "kl_k3": float((np.exp(logs) - 1 - logs).mean()),
    }


def grouped(tokens: SampledTokens, residuals: Floats) -> dict[str, dict[str, dict[str, Any]]]:
    """Return short measures by `turn`, by `position` in the turn (in doubling ranges) and by weight `version`."""
    keys: dict[str, tuple[Ints, Callable[[int], str]]] = {
        "turn": (tokens.turn, lambda key: str(key + 1)),
        "position": (np.floor(np.log2(tokens.offset + 1)).astype(np.int64), _range),
        "version": (tokens.version, str),
    }
    return {
        name: {label(int(key)): short_measures(residuals[values == key]) for key in np.unique(values)[:_MOST_GROUPS]}
        for name, (values, label) in keys.items()
    }


def _range(power: int) -> str:
    first, last = 2**power, 2 ** (power + 1) - 1
    return str(first) if first == last else f"{first}-{last}"
