"""Importance weights: how much more likely the trained policy makes what another one sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

Level: TypeAlias = Literal["token", "sequence", "geometric"]
"""Of what the ratio is: of each token; of the whole row, the product of its tokens' ratios; or their geometric mean."""

Bound: TypeAlias = Literal["truncate", "mask"]
"""What happens to a ratio that is too high: it is lowered to the limit, or its tokens have the weight 0."""

_MOST = 20.0  # natural log of a ratio, as in verl


class Importance(NamedTuple):
    """Importance weights of rows, and how far the two policies are apart.

    Attributes:
        weights: One for each token, float64, in the shape of the log probabilities; 0 where nothing was sampled.
        cut: The share of sampled tokens whose ratio was bounded.
        kl: The mean of `sampler - trainer` over the sampled tokens, in nats: an estimate of KL(sampler, trainer).
        effective: The effective sample size of the unbounded ratios, as a share of their number, (0, 1].
    """

    weights: NDArray[np.float64]
    cut: float
    kl: float
    effective: float


def importance(
    trainer: Sequence[Sequence[float]] | NDArray[np.float64],
    sampler: Sequence[Sequence[float]] | NDArray[np.float64],
    mask: Sequence[Sequence[int]] | NDArray[np.int64],
    *,
    level: Level = "token",
    bound: Bound = "truncate",
    highest: float = 2.0,
    lowest: float | None = None,
) -> Importance:
    """Return the ratios of two policies' probabilities, bounded.

    `truncate` is truncated importance sampling (TIS), min(ratio, highest). `mask` is masked importance sampling (MIS):
    a ratio above `highest` or below `lowest` has the weight 0. Both are as in TRL's `vllm_importance_sampling_mode`
    and verl's `rollout_is`.

    Args:
        trainer: Natural log of each token's probability under the policy that is trained, shape (rows, tokens).
        sampler: The same as it was sampled (`TokenRow.logprobs`).
        mask: 1 for a sampled token, 0 for any other and for padding.
        level: Of what the ratio is.
        bound: What happens to a ratio that is too high.
        highest: The limit, above 0.
        lowest: With `mask`, the lower limit; None for none.

    Raises:
        ValueError: If the shapes differ, or an argument is invalid.

    >>> found = importance([[0.0, -1.0]], [[-2.0, -1.0]], [[1, 1]], highest=3.0)
    >>> found.weights.round(2).tolist(), found.cut
    ([[3.0, 1.0]], 0.5)
    """
    for name, value, known in (("level", level, get_args(Level)), ("bound", bound, get_args(Bound))):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}; got {value!r}.")
    if not highest > 0 or (lowest is not None and not 0 <= lowest < highest):
        raise ValueError(f"highest is above 0, and lowest from 0 to highest; got {highest!r} and {lowest!r}.")
    if lowest is not None and bound != "mask":
        raise ValueError("lowest is for bound='mask'.")
    new, old, used = np.asarray(trainer, np.float64), np.asarray(sampler, np.float64), np.asarray(mask) != 0
    if not new.shape == old.shape == used.shape or new.ndim != 2:
        raise ValueError(f"The arrays have one shape (rows, tokens); got {new.shape}, {old.shape} and {used.shape}.")
    differences = np.where(used, new - old, 0.0)
    if level == "token":
        logs = differences
    else:
        logs = differences.sum(axis=1, keepdims=True)
        if level == "geometric":
            logs = logs / np.maximum(used.sum(axis=1, keepdims=True), 1)
        logs = np.broadcast_to(logs, new.shape)
    ratios = np.exp(np.clip(logs, -_MOST, _MOST))
    outside = ratios > highest
    if bound == "truncate":
        weights = np.minimum(ratios, highest)
    else:
        if lowest is not None:
            outside = outside | (ratios < lowest)
        weights = np.where(outside, 0.0, ratios)
    count = int(used.sum())
    sampled = ratios[used]
    return Importance(
        np.where(used, weights, 0.0),
        float(outside[used].mean()) if count else 0.0,
        float(-differences[used].mean()) if count else 0.0,
        float(sampled.sum() ** 2 / (count * (sampled**2).sum())) if count else 1.0,
    )
