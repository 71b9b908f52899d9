"""Comparison of the turns of a model and an expert: calls, their arguments, and which call matches which.

The work is bounded for any model output. Only the first calls of a turn count, with a limited number of JSON values in
their arguments, as for running tools (`utils/limits.py`). Calls are paired with at most `MOST_EXPECTED` expected ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import islice
from math import isfinite
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import orjson
from pydantic import BaseModel, Field, field_validator

from gym_llm.types import Item
from gym_llm.utils.json_codec import refuse_constant
from gym_llm.utils.limits import CALLS, LIMITS, VALUES, count_values, limit

MOST_EXPECTED = 64
"""Calls that a row may expect."""
_MOST_PAIRS = 1_024


class _Mark(Enum):
    NOT_JSON = "not JSON"


NOT_JSON: Final = _Mark.NOT_JSON
"""Stands for arguments that are not JSON, or too much of it."""

Difference: TypeAlias = Literal["type", "keys", "length", "value"]
"""How two JSON values differ first: by their types, an object's keys, a list's length, or a value."""


class Call(NamedTuple):
    """A call with its arguments read: any JSON value, or `NOT_JSON`."""

    name: str
    arguments: Any


class ExpectedMessage(BaseModel):
    """The expert said something."""

    type: Literal["message"]
    content: str


class ExpectedCall(BaseModel):
    """The expert made one call; `arguments` is JSON, as a model writes it."""

    type: Literal["function_call"] = "function_call"
    name: str
    arguments: str

    @field_validator("arguments")
    @classmethod
    def _json(cls, text: str) -> str:
        if parse_arguments(text) is NOT_JSON:
            raise ValueError(f"the expected arguments are not JSON: {text[:80]!r}")
        return text

    @property
    def calls(self) -> list[ExpectedCall]:
        """Itself, so that one call is read like several."""
        return [self]


class ExpectedBatch(BaseModel):
    """The expert made several calls at once."""

    type: Literal["function_call_batch"]
    calls: Annotated[list[ExpectedCall], Field(min_length=1, max_length=MOST_EXPECTED)]


ExpectedAction: TypeAlias = Annotated[ExpectedMessage | ExpectedCall | ExpectedBatch, Field(discriminator="type")]
"""What the expert did."""


def calls_of(action: ExpectedMessage | ExpectedCall | ExpectedBatch) -> list[Call]:
    """The expert's calls, their arguments read; none if it was a message."""
    if isinstance(action, ExpectedMessage):
        return []
    return [Call(call.name, parse_arguments(call.arguments)) for call in action.calls]


def parse_arguments(text: str, *, as_python: bool = False) -> Any:
    r"""A call's arguments as JSON, else `NOT_JSON`. Integers beyond 64 bits come back as the nearest float.

    Args:
        text: What the model wrote.
        as_python: Read what Python's `json` reads, as NeMo Gym does: `NaN`, `Infinity` and integers of any size, too.

    >>> parse_arguments('{"a": 1}'), parse_arguments("a = 1") is NOT_JSON
    ({'a': 1}, True)
    """
    if as_python:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return NOT_JSON
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:  # with lone surrogates, which models do write
        return json.loads(text, parse_constant=refuse_constant, parse_float=_finite, parse_int=_finite)
    except (ValueError, RecursionError):
        return NOT_JSON


def _finite(text: str) -> int | float:
    if len(text) < 20 and text.lstrip("-").isdigit():
        return int(text)
    if isfinite(value := float(text)):
        return value
    raise ValueError(f"{text[:20]} is too large for a number")


def read_calls(items: Iterable[Item], *, as_python: bool = False) -> list[Call]:
    """The function calls among a model's items; those beyond a turn's limits are left out, or are `NOT_JSON`.

    Args:
        items: The model's output items.
        as_python: As for `parse_arguments`.
    """
    texts = [(item["name"], item["arguments"]) for item in items if item.get("type") == "function_call"]
    if len(texts) > LIMITS[CALLS].least:
        texts = texts[: limit(CALLS)]
    if sum([len(text) for _, text in texts]) <= LIMITS[VALUES].least:
        return [Call(name, parse_arguments(text, as_python=as_python)) for name, text in texts]
    left = limit(VALUES)
    calls = []
    for name, text in texts:
        few = (count := count_values(text, left)) <= left
        left -= count if few else 0
        calls.append(Call(name, parse_arguments(text, as_python=as_python) if few else NOT_JSON))
    return calls


def json_equal(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are the same: 1 is 1.0, and neither is true nor "1".

    >>> json_equal({"a": [1, True]}, {"a": [1.0, True]}), json_equal(1, True)
    (True, False)
    """
    try:
        if expected != actual:
            return False
    except RecursionError:
        return False
    if expected.__class__ is str:
        return True
    return difference(expected, actual, _equal_leaves, same_type=False) is None


def difference(
    expected: Any, actual: Any, same: Callable[[Any, Any], bool], *, same_type: bool = True
) -> Difference | None:
    """Return the first difference of two JSON values, in the order of the expected one; None without.

    Args:
        expected: The value of the row.
        actual: The value of the model.
        same: Decides for two values that are neither objects nor lists.
        same_type: Whether the model's value has to be an instance of the expected one's Python type (`True` is an int).
    """
    try:
        return _difference(expected, actual, same, same_type)
    except RecursionError:  # deeper than any expert's arguments
        return "value"


def _difference(expected: Any, actual: Any, same: Callable[[Any, Any], bool], same_type: bool) -> Difference | None:
    kind = expected.__class__
    if (same_type or kind is dict or kind is list) and not isinstance(actual, kind):
        return "type"
    if kind is dict:
        if expected.keys() != actual.keys():
            return "keys"
        pairs: Iterable[tuple[Any, Any]] = [(value, actual[key]) for key, value in expected.items()]
    elif kind is list:
        if len(expected) != len(actual):
            return "length"
        pairs = zip(expected, actual, strict=True)
    else:
        return None if same(expected, actual) else "value"
    for one, other in pairs:
        if found := _difference(one, other, same, same_type):
            return found
    return None


def _equal_leaves(expected: Any, actual: Any) -> bool:
    return expected == actual and isinstance(expected, bool) == isinstance(actual, bool)


def candidates(expected: Sequence[Any], actual: Sequence[Any], fits: Callable[[Any, Any], bool]) -> list[list[int]]:
    """For each expected call the indices of the model's calls that fit it.

    With very many expected ones only the model's first calls are looked at; always at least as many as are expected.
    """
    most = max(_MOST_PAIRS // max(len(expected), 1), len(expected))
    return [[index for index, call in enumerate(islice(actual, most)) if fits(one, call)] for one in expected]


def largest_matching(edges: Sequence[Sequence[int]]) -> dict[int, int]:
    """A largest set of pairs in which no call occurs twice (augmenting paths; those with the fewest choices first).

    Args:
        edges: What `candidates` gives.

    Returns:
        For each of the model's calls that is paired the index of the expected one.

    >>> largest_matching([[0, 1], [0]])
    {0: 1, 1: 0}
    """
    pairs: dict[int, int] = {}
    dead: set[int] = set()  # from here no search found a free call, and none ever will

    def augment(one: int, seen: set[int]) -> bool:
        for other in edges[one]:
            if other in seen or other in dead:
                continue
            seen.add(other)
            if other not in pairs or augment(pairs[other], seen):
                pairs[other] = one
                return True
        return False

    for one in sorted(range(len(edges)), key=lambda index: len(edges[index])):
        seen: set[int] = set()
        if not augment(one, seen):
            dead |= seen
    return dict(sorted(pairs.items()))


def first_fit(edges: Sequence[Sequence[int]]) -> dict[int, int]:
    """Pairs as they come: each expected call takes the first free one, though a later one may need it.

    >>> first_fit([[0, 1], [0]])
    {0: 0}
    """
    pairs: dict[int, int] = {}
    for one, others in enumerate(edges):
        if (free := next((other for other in others if other not in pairs), None)) is not None:
            pairs[free] = one
    return pairs


def call_items(calls: Iterable[tuple[str, Any]]) -> list[Item]:
    """Return function calls as a model's output items; arguments are JSON in a text, or an object."""
    return [
        {
            "type": "function_call",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
        }
        for number, (name, arguments) in enumerate(calls, 1)
    ]


def expected_turn(action: ExpectedMessage | ExpectedCall | ExpectedBatch) -> str | list[Item]:
    """Return what the expert did as a model would answer: a text, or the items of calls."""
    if isinstance(action, ExpectedMessage):
        return action.content
    return call_items((call.name, call.arguments) for call in action.calls)
