"""Exact expectations over all subsets of k of a task's n answers: pass@k, pass^k, majority@k, best of k.

Each function but `pass_at_k` returns the expectation for every k from 1 to n, drawing without replacement.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

MOST_VOTES = 1000
"""Most answers to one task that `majority_at` counts; beyond, the numbers of subsets overflow floats."""


def pass_at_k(samples: int, solved: int, k: int) -> float:
    """Return the unbiased estimate of the chance that at least one of `k` answers is right.

    `1 - C(n - c, k) / C(n, k)`, from Chen et al. 2021, "Evaluating Large Language Models Trained on Code"
    (arXiv 2107.03374), equation 1.

    Args:
        samples: `n`, the number of answers to the task.
        solved: `c`, the number of right ones among them.
        k: The number of answers drawn.

    Raises:
        ValueError: Unless 1 <= k <= samples and 0 <= solved <= samples.

    >>> pass_at_k(samples=4, solved=1, k=2)
    0.5
    """
    if not (1 <= k <= samples and 0 <= solved <= samples):
        raise ValueError(f"pass@k needs 1 <= k <= samples and 0 <= solved <= samples, got {k=}, {samples=}, {solved=}.")
    return 1.0 - math.comb(samples - solved, k) / math.comb(samples, k)


@lru_cache(maxsize=65536)
def pass_at(samples: int, solved: int) -> tuple[float, ...]:
    """Return pass@k for k = 1 … n: the chance that at least one of k answers is right.

    >>> pass_at(4, 1)
    (0.25, 0.5, 0.75, 1.0)
    """
    return tuple(pass_at_k(samples, solved, k) for k in range(1, samples + 1))


@lru_cache(maxsize=65536)
def pass_all(samples: int, solved: int) -> tuple[float, ...]:
    """Return pass^k for k = 1 … n: the chance that all k answers are right, `C(c, k) / C(n, k)`.

    From Yao et al. 2024, "τ-bench" (arXiv 2406.12045), section 4.

    >>> pass_all(4, 3)
    (0.75, 0.5, 0.25, 0.0)
    """
    return tuple(math.comb(solved, k) / math.comb(samples, k) for k in range(1, samples + 1))


def best_of(keys: Sequence[float], values: Sequence[float]) -> tuple[float, ...]:
    """Return best of k for k = 1 … n: the expected value of the answer whose key is the highest of k.

    Answers of the same key are as likely to be taken.

    Args:
        keys: Criteria that the best answer maximises, e.g. log probabilities.
        values: The value of each answer.

    >>> best_of([-1.0, -2.0, -3.0], [1.0, 0.0, 1.0])  # of two, the second is the best once in three
    (0.6666666666666666, 0.6666666666666666, 1.0)
    """
    if len(values) == 1:
        return (values[0],)
    tied: dict[float, list[float]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        tied[key].append(value)
    ranked: list[float] = []
    for key in sorted(tied):  # each of the same key is worth their mean
        equal = tied[key]
        ranked += [math.fsum(value / len(equal) for value in equal)] * len(equal)
    return tuple((_highest(len(ranked)) @ np.array(ranked)).tolist())


@lru_cache(maxsize=256)
def _highest(samples: int) -> np.ndarray:
    """For each k, the chance of each rank, from the lowest, to be the highest of k: `C(rank, k - 1) / C(n, k)`."""
    ranks = np.arange(1, samples)
    rows = []
    for k in range(1, samples + 1):  # each chance from the one above it: C(r - 1, k - 1) = C(r, k - 1) (r - k + 1) / r
        falling = np.cumprod(np.maximum(0, ranks - k + 1)[::-1] / ranks[::-1])
        rows.append(np.append(falling[::-1], 1.0) * (k / samples))
    return np.array(rows)


def majority_at(answers: Iterable[tuple[str | None, bool]]) -> tuple[float, ...]:
    """Return majority@k for k = 1 … n: the chance that the answer given most often among k is right.

    Tied leaders are equally likely. A missing answer (None) is drawn like any other and never wins. An answer that the
    verifier judges inconsistently is right in the share of its votes that were judged right.

    Args:
        answers: Pairs of an answer and whether it is right; at most 1,000.

    >>> majority_at([("4", True), ("4", True), ("5", False)])
    (0.6666666666666666, 0.6666666666666666, 1.0)
    """
    votes: dict[str, list[bool]] = defaultdict(list)
    blank = 0
    for answer, is_right in answers:
        if answer is None:
            blank += 1
        else:
            votes[answer].append(is_right)
    return _majority(tuple(sorted((len(each), sum(each)) for each in votes.values())), blank)


@lru_cache(maxsize=65536)
def _majority(candidates: tuple[tuple[int, int], ...], blank: int) -> tuple[float, ...]:
    """Return `majority_at` for candidates, each given as its votes and the right ones among them.

    The number of subsets of each size in which the leaders have exactly j votes is a coefficient of a product over the
    candidates, `sum(C(m, i) x**i for i < j) + y C(m, j) x**j`: x counts the drawn, y the leaders. It is multiplied out
    for each j up to the votes of the second, in about j (n + candidates) steps on arrays of k by k / j numbers; with
    more votes only the first can lead, alone. All terms are positive, so nothing cancels.
    """
    samples = blank + sum(votes for votes, _ in candidates)
    if samples > MOST_VOTES:
        raise ValueError(f"majority@k counts up to {MOST_VOTES:,} answers to a task, got {samples:,}.")
    if not candidates:
        return (0.0,) * samples
    chances = np.zeros(samples + 1)
    totals = np.array([float(math.comb(samples, k)) for k in range(samples + 1)])
    second = candidates[-2][0] if len(candidates) > 1 else 0
    first, right = candidates[-1]
    for leading in range(second + 1, first + 1):
        for others in range(samples - first + 1):
            chances[leading + others] += right / first * math.comb(first, leading) * math.comb(samples - first, others)
    for leading in range(1, second + 1):
        # [drawn, leaders]: the number of subsets, and the sum over them of the leaders' chances to be right
        ways = np.zeros((samples + 1, samples // leading + 2))
        ways[: blank + 1, 0] = [math.comb(blank, drawn) for drawn in range(blank + 1)]
        sums = np.zeros_like(ways)
        reach = blank
        for votes, right_votes in candidates:
            old_ways, old_sums = ways[: reach + 1].copy(), sums[: reach + 1].copy()
            for drawn in range(1, min(votes, leading - 1) + 1):
                count = float(math.comb(votes, drawn))
                ways[drawn : drawn + reach + 1] += count * old_ways
                sums[drawn : drawn + reach + 1] += count * old_sums
            if votes >= leading:
                count, chance = float(math.comb(votes, leading)), right_votes / votes
                ways[leading : leading + reach + 1, 1:] += count * old_ways[:, :-1]
                sums[leading : leading + reach + 1, 1:] += count * (old_sums + chance * old_ways)[:, :-1]
            reach += votes
        chances += (sums[:, 1:] / np.arange(1, sums.shape[1])).sum(axis=1)
    return tuple((chances[1:] / totals[1:]).tolist())
