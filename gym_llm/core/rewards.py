"""Rewards and metrics: what a verifier returns is checked here."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from gym_llm.errors import InvalidReward
from gym_llm.types import Episode, Verdict
from gym_llm.utils.text import did_you_mean

Aggregate: TypeAlias = Literal["mean", "sum", "max", "min", "median", "rate"]
"""How the numbers of many episodes become one; `rate` is the share of the episodes where it is not 0."""


@dataclass(slots=True, frozen=True)
class Metric:
    """A metric that a verifier reports beside the reward, as declared in `VerifierEnv.metrics`.

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


_REAL_KINDS = "biufV"
"""Kinds of numpy's data types that are real numbers; V are those of other packages, such as bfloat16."""

_NOT_DETAILS = ("trajectory", "reward", "reward_components")
"""What else an info may have, from others: what a `Verdict` says under these names would be taken for theirs."""


def read_verdict(verdict: Any, info: dict[str, Any]) -> float:
    """The reward that `verify` gave; the details of a `Verdict` go into `info`, under names that are free.

    Args:
        verdict: A number (also numpy's or torch's), or a `Verdict`.
        info: The last step's info.

    Raises:
        InvalidReward: If it is NaN, infinite or no number, or a Verdict's parts are not what `Verdict` says.
    """
    if type(verdict) is float and math.isfinite(verdict):
        return verdict
    if not isinstance(verdict, Verdict):
        return _number(verdict, "verify returned")
    if not isinstance(verdict.info, dict):
        raise InvalidReward(f"A Verdict's info is a dict, got {type(verdict.info).__name__}.")
    for name, value in verdict.info.items():
        if name not in _NOT_DETAILS:
            info.setdefault(name, value)
    components = verdict.reward_components
    if components is not None:
        if not isinstance(components, dict):
            raise InvalidReward(f"A Verdict's reward_components is a dict, got {type(components).__name__}.")
        info["reward_components"] = {
            name: _number(value, f"the reward component {name!r} is") for name, value in components.items()
        }
    reward = verdict.reward
    return reward if type(reward) is float and math.isfinite(reward) else _number(reward, "the Verdict's reward is")


def read_step_reward(episode: Episode, info: dict[str, Any]) -> float:
    """The reward of an episode's turn, which goes into its `info`, too.

    Raises:
        InvalidReward: If it is NaN, infinite or no number.
    """
    info["reward"] = episode.step_reward = _number(episode.step_reward, "this turn's step_reward is")
    return episode.step_reward


def _number(value: Any, subject: str) -> float:
    try:
        if (plain := _plain_number(value)) is not None and math.isfinite(number := float(plain)):
            return number
    except Exception as error:  # an int too large, an array of several numbers, a tensor on no device, …
        raise InvalidReward(f"A reward is a finite number, but {subject} a {type(value).__name__}: {error}") from error
    text = repr(value)[:80] if isinstance(value, (float, str, int, type(None))) else f"a {type(value).__name__}"
    raise InvalidReward(f"A reward is a finite number, but {subject} {text}.")


def _plain_number(value: Any) -> Any:
    """Return a real number, also of an array or tensor with one element; None for all else.

    Much has a `__float__` without being a real number: numpy's complex numbers, texts and times, and mocks.
    """
    kind = type(value)
    if isinstance(value, np.ndarray) and hasattr(kind, "mask"):
        return None  # of `numpy.ma` and its likes: a missing value has a number in its place
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind not in _REAL_KINDS:
        return None
    if issubclass(kind, (numbers.Real, Decimal)):
        return value
    item = value.item() if hasattr(kind, "item") and hasattr(kind, "dtype") else None
    return item if isinstance(item, numbers.Real) else None
