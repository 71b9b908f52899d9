"""The three token fields of an output item, checked on input: training relies on every number."""

from __future__ import annotations

import math
from typing import Any

import orjson

from gym_llm.types import TURN_FIELDS, Item

ROUNDING = 1e-3
"""The most that a log probability may be above 0: bfloat16 rounds that of an all but certain token to a little more."""

_IDS_END = 1 << 31
_NUMBERS = frozenset({int, float})


def without_tokens(item: Item) -> Item:
    """An item without its token fields: itself where it has none, else a copy."""
    if any(name in item for name in TURN_FIELDS):
        return {name: value for name, value in item.items() if name not in TURN_FIELDS}
    return item


def check_tokens(prompt_ids: Any, sampled_ids: Any, log_probs: Any) -> None:
    """Check what a server gives for a turn; the values are not changed, nor is a log probability of up to `ROUNDING`.

    Args:
        prompt_ids: A list of integers in [0, 2**31).
        sampled_ids: The same.
        log_probs: A list of as many finite numbers, none above 0.

    Raises:
        ValueError: If they are anything else; a sentence.

    >>> check_tokens([5, 6], [7], [-0.5])
    >>> check_tokens([5, 6], [7], [float("nan")])
    Traceback (most recent call last):
    ValueError: log probabilities of sampled tokens are finite numbers of at most 0
    """
    _check_ids("prompt", prompt_ids)
    _check_ids("sampled", sampled_ids)
    if type(log_probs) is not list or not _NUMBERS.issuperset(map(type, log_probs)):
        raise ValueError("log probabilities of sampled tokens are a list of numbers")
    if len(log_probs) != len(sampled_ids):
        raise ValueError(f"there are {len(sampled_ids)} sampled tokens but {len(log_probs)} log probabilities")
    try:
        # A sum is as finite as each of its terms. In C, as all here: 0.04 us for each token.
        right = not log_probs or (math.isfinite(sum(log_probs)) and max(log_probs) <= ROUNDING)
    except OverflowError:  # an integer beyond every float
        right = False
    if not right:
        raise ValueError("log probabilities of sampled tokens are finite numbers of at most 0")


def _check_ids(which: str, ids: Any) -> None:
    try:
        # As JSON, integers that are not negative are digits and nothing else: 0.02 us for each, with the maximum.
        digits = orjson.dumps(ids).translate(None, b"0123456789,") if type(ids) is list else b""
    except TypeError:  # an integer beyond 64 bits
        digits = b""
    if digits != b"[]" or (ids and max(ids) >= _IDS_END):
        raise ValueError(f"the {which} token ids are a list of integers in [0, 2**31)")
