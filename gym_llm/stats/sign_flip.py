"""The sign-flip test of paired differences: exactly, wherever that can be computed.

If two runs are equally good, each task's difference is as likely to have the other sign. The test looks at all 2**T
choices of signs. The two-sided p-value is the share whose sum of differences is at least as far from 0 as the observed
sum. Source: Fisher 1935, "The Design of Experiments", section 21. If each difference is -1, 0 or 1, this is McNemar's
exact test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from gym_llm.stats.intervals import Floats

MOST_STEPS = 4_000_000_000
"""Differences times their sum in steps of a lattice, up to which sums are counted: about two seconds."""
MOST_HALVES = 40
"""Differences up to which all choices of signs are counted, as pairs of one half's and the other's."""
SAMPLES = 1_000_000
"""Choices of signs that are drawn where they are too many to count, fewer beyond 3,000 differences."""

_FINEST = 100_000  # of a lattice: its points between 0 and 1
_MOST_SIGNS = 3_000_000_000  # drawn: about five seconds
_ROWS = 50_000  # sums drawn at once


@dataclass(slots=True, frozen=True)
class SignFlip:
    """A p-value and how it was found.

    Attributes:
        p_value: Two-sided; 1.0 where nothing differs.
        method: `exact`, or `sampled` where it is estimated from choices of signs drawn at random.
        samples: How many were drawn; 0 where it is exact.
    """

    p_value: float
    method: Literal["exact", "sampled"]
    samples: int = 0


def sign_flip(differences: Floats, *, seed: int = 0) -> SignFlip:
    """Test whether paired differences are as likely to be above 0 as below.

    Args:
        differences: One for each task, finite.
        seed: For drawing signs where they cannot all be counted.

    >>> sign_flip(np.array([1.0, 1.0, 1.0, 0.0])).p_value
    0.25
    """
    sizes = np.abs(differences[differences != 0])
    if not len(sizes):
        return SignFlip(1.0, "exact")
    total = abs(float(differences.sum()))
    if (steps := _on_lattice(sizes)) is not None and len(steps) * int(steps.sum()) <= MOST_STEPS:
        signs = np.sign(differences[differences != 0]).astype(np.int64)
        return SignFlip(_count_on_lattice(steps, abs(int((steps * signs).sum()))), "exact")
    if len(sizes) <= MOST_HALVES:
        return SignFlip(_count_in_halves(sizes, total), "exact")
    samples = max(10_000, min(SAMPLES, _MOST_SIGNS // len(sizes)))
    return SignFlip(_sample(sizes, total, samples, seed), "sampled", samples)


def _on_lattice(sizes: Floats) -> np.ndarray | None:
    """Return the sizes as whole multiples of one step, None if they are not."""
    step = 1
    for size in np.unique(sizes).tolist():
        fraction = Fraction(size).limit_denominator(_FINEST)
        step = math.lcm(step, fraction.denominator)
        if step > _FINEST or abs(float(fraction) - size) > 1e-12 * max(1.0, size):
            return None
    multiples = np.rint(sizes * step)
    return multiples.astype(np.int64) if multiples.max() < MOST_STEPS else None


def _count_on_lattice(steps: np.ndarray, total: int) -> float:
    """The distribution of the sum, built up difference by difference."""
    reach = int(steps.sum())
    chances = np.zeros(reach + 1)  # of the sum of the steps whose sign is plus; the sum of all is twice that, less all
    chances[0], so_far = 1.0, 0
    for step in np.sort(steps).tolist():
        shifted = chances[: so_far + 1] / 2
        chances[: so_far + 1] /= 2
        chances[step : step + so_far + 1] += shifted
        so_far += step
    sums = np.abs(2 * np.arange(reach + 1) - reach)
    return min(1.0, float(chances[sums >= total].sum()))


def _count_in_halves(sizes: Floats, total: float) -> float:
    """Count the sums that are as far out: one half's sums are looked up among the other's, sorted."""
    half = len(sizes) // 2
    left, right = np.sort(_all_sums(sizes[:half])), _all_sums(sizes[half:])
    least = total * (1 - 1e-12)  # sums that are equal may differ in their last bits
    above = len(left) - np.searchsorted(left, least - right, side="left")
    below = np.searchsorted(left, -least - right, side="right")
    return min(1.0, float(above.sum() + below.sum()) / (len(left) * len(right)))


def _all_sums(sizes: Floats) -> Floats:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums - size, sums + size))
    return sums


def _sample(sizes: Floats, total: float, samples: int, seed: int) -> float:
    """The share of signs drawn at random, with those that there are counted among them (so never 0)."""
    generator, extreme = np.random.default_rng(seed), 0
    groups = [sizes[start : start + 8] for start in range(0, len(sizes), 8)]
    tables = [np.resize(_all_sums(group), 256) for group in groups]  # a random byte chooses the signs of eight
    for start in range(0, samples, _ROWS):
        rows = min(_ROWS, samples - start)
        sums = np.zeros(rows)
        for table in tables:
            sums += table[generator.integers(256, size=rows, dtype=np.uint8)]
        extreme += int(np.count_nonzero(np.abs(sums) >= total * (1 - 1e-12)))
    return (extreme + 1) / (samples + 1)
