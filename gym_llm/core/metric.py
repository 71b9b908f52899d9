"""What a verifier says of its own numbers: which of an episode's `info` are metrics, and how they are to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gym_llm.utils.did_you_mean import did_you_mean

Aggregate: TypeAlias = Literal["mean", "sum", "max", "min", "median", "rate"]
"""How the numbers of many episodes become one; `rate` is the share of the episodes where it is not 0."""


@dataclass(slots=True, frozen=True)
class Metric:
    """One metric that a verifier reports beside the reward: `VerifierEnv.metrics` has them by name.

    Args:
        aggregate: How the episodes' numbers become one. Only episodes that have a reward and this number count.
        higher_is_better: Which way is better; None where neither is.
        field: The field of `info`, or the reward component, if it has another name than the metric.

    Raises:
        ValueError: If there is no such aggregate.

    >>> Metric("mean", higher_is_better=False).higher_is_better
    False
    """

    aggregate: Aggregate = "mean"
    higher_is_better: bool | None = True
    field: str | None = None

    def __post_init__(self) -> None:
        """Check the aggregate."""
        if self.aggregate not in (known := get_args(Aggregate)):
            hint = did_you_mean(str(self.aggregate), known)
            raise ValueError(f"A metric's aggregate is one of {', '.join(known)}; got {self.aggregate!r}.{hint}")
