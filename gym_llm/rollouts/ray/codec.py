"""The codec between processes: batches as bytes, and only the new items of each observation."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


def pickle_each(values: Sequence[T], instead: Callable[[T, Exception], T | None]) -> bytes:
    """Pickle a list, all at once as nearly always, or where that fails value by value.

    `instead` makes of a value that cannot be pickled, and of the error, what goes in its place; None for nothing.
    """
    try:
        return pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    except Exception:  # whatever one value's object raises; the others are fine
        return pickle.dumps([part for value in values if (part := _picklable(value, instead)) is not None])


def _picklable(value: T, instead: Callable[[T, Exception], T | None]) -> T | None:
    try:
        pickle.dumps(value)
    except Exception as error:
        return instead(value, error)
    return value


def first_line(error: Exception) -> str:
    """Return the first line of Ray's error; the rest describes Ray."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


Packed: TypeAlias = tuple[Any, int, list[Any]]
"""`(observation, -1, [])` for a whole one; `(None, n, items)`: the last one's first `n` input items and these."""


class Sender:
    """Packs the observations of one environment, in order."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Any = None

    def pack(self, observation: Any) -> Packed:
        """A request that continues the last one, item for item, is sent as its new items; anything else whole.

        Items and fields are compared by identity: environments never change one that they have given out.
        """
        last, self._last = self._last, observation
        whole: Packed = observation, -1, []
        if last.__class__ is not dict or observation.__class__ is not dict or last.keys() != observation.keys():
            return whole
        before, now = last.get("input"), observation.get("input")
        if before.__class__ is not list or now.__class__ is not list or len(before) > len(now):
            return whole
        for key, value in last.items():
            if value is not observation[key] and key != "input":
                return whole
        if not all(map(operator.is_, before, now)):
            return whole
        return None, len(before), now[len(before) :]


class Receiver:
    """Puts the observations of one environment together again."""

    __slots__ = ("_items", "_rest")

    def __init__(self) -> None:
        self._rest: dict[str, Any] = {}
        self._items: list[Any] = []

    def unpack(self, packed: Packed) -> Any:
        """The observation that was packed: a dict and a list that are the caller's to change."""
        observation, count, items = packed
        if count >= 0:
            self._items = items = self._items[:count] + items
            observation = self._rest.copy()
        elif observation.__class__ is dict and observation.get("input").__class__ is list:
            self._items = items = observation["input"]
            self._rest = observation.copy()
        else:
            return observation
        observation["input"] = items.copy()
        return observation
