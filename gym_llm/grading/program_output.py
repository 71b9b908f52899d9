"""Comparison of a program's output, or a function's value, with the expected one.

A model made the left side: nothing here raises for it, and all of it takes linear time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

_SHOWN = 300
_DEEPEST = 200


def line_difference(output: str, expected: str, tolerance: float | None = None, *, conform: bool = False) -> str | None:
    r"""Describe how the lines of an output differ from the expected ones; None if they do not.

    Both are stripped, and so is every line; two lines are the same, too, if their words are the same numbers, exactly.
    LiveCodeBench's rule. With a tolerance a line may have other words, too. Numbers that are written as floats may
    then differ by the tolerance, or by this share of the expected number. With `conform`, as in NeMo Gym, only lines of
    numbers may differ so, and `YES` is `yes`.

    >>> line_difference("1.50 x\n 2.0\n", "1.50 x\n2"), line_difference("1", "1\n2")
    (None, 'Wrong answer: mismatched output length')
    >>> line_difference("x 0.33333", "x 0.3333333333", 1e-5), line_difference("3", "4", 1.0) is None
    (None, False)
    """
    output, expected = output.strip(), expected.strip()
    if output.count("\n") != expected.count("\n"):
        return "Wrong answer: mismatched output length"
    for number, (line, wanted) in enumerate(zip(output.split("\n"), expected.split("\n"), strict=True)):
        line, wanted = line.strip(), wanted.strip()
        if line != wanted and not _same_words(line, wanted, tolerance, conform):
            return f"Wrong answer at output_line_idx={number}: {shortened(line)} != {shortened(wanted)}"
    return None


def _same_words(line: str, wanted: str, tolerance: float | None, conform: bool) -> bool:
    if conform and line.lower() == wanted.lower() and line.lower() in ("yes", "no"):
        return True
    words, wanted_words = line.split(), wanted.split()
    if len(words) != len(wanted_words):
        return False
    pairs = zip(words, wanted_words, strict=True)
    if tolerance is not None:
        return all((word == other and not conform) or _close_words(word, other, tolerance) for word, other in pairs)
    try:
        return all(Decimal(word) == Decimal(other) for word, other in pairs)
    except InvalidOperation:  # no number, or one that signals
        return False


def _close_words(word: str, wanted: str, tolerance: float) -> bool:
    """Whether two words are the same number, or close ones of which at least one is written as a float."""
    try:
        number, expected = Decimal(word), Decimal(wanted)
        if number == expected:
            return True
        is_float = any(mark in text for text in (word, wanted) for mark in ".eE")
        if not (is_float and number.is_finite() and expected.is_finite()):
            return False
        return abs(number - expected) <= Decimal(str(tolerance)) * max(abs(expected), Decimal(1))
    except ArithmeticError:  # no number, one that signals, or one that is too large
        return False


def shortened(value: object) -> str:
    """Return a text, or how a value prints, without its middle if it has more than 300 characters."""
    text = value if isinstance(value, str) else str(value)
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN // 2]}...(truncated) ...{text[-_SHOWN // 2 :]}"


def read_json(text: str | None) -> Any:
    """Read a JSON value; raise ValueError if the text is not JSON, or nests too deeply.

    Whole numbers are `Decimal`, all of them, where one has thousands of digits.
    """
    if text is None:
        raise ValueError("no JSON")
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # numbers of thousands of digits
            return json.loads(text, parse_int=Decimal)
    except RecursionError:
        raise ValueError("JSON that nests too deeply") from None


def close_values(value: Any, expected: Any, *, rel_tol: float = 0.0, abs_tol: float = 0.0) -> bool:
    """Whether two JSON values are equal, numbers within a tolerance; what nests deeper than 200 never is.

    >>> close_values([1, {"a": 0.30000000000000004}], [1.0, {"a": 0.3}], abs_tol=1e-6)
    True
    """
    return _close(value, expected, rel_tol, abs_tol, _DEEPEST)


def _close(value: Any, expected: Any, rel_tol: float, abs_tol: float, depth: int) -> bool:
    if depth == 0:
        return False
    if isinstance(expected, Mapping):
        return (
            isinstance(value, Mapping)
            and value.keys() == expected.keys()
            and all(_close(value[name], expected[name], rel_tol, abs_tol, depth - 1) for name in expected)
        )
    if isinstance(expected, str) or not isinstance(expected, Sequence):
        if isinstance(value, int | float) and isinstance(expected, int | float):
            return _close_numbers(value, expected, rel_tol, abs_tol)
        return type(value) is type(expected) and bool(value == expected)
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) == len(expected)
        and all(_close(*pair, rel_tol, abs_tol, depth - 1) for pair in zip(value, expected, strict=True))
    )


def _close_numbers(value: float, expected: float, rel_tol: float, abs_tol: float) -> bool:
    if value == expected or (value != value and expected != expected):
        return True
    if isinstance(value, int) and isinstance(expected, int):
        return False
    try:
        return math.isclose(value, expected, rel_tol=rel_tol, abs_tol=abs_tol)
    except OverflowError:
        return False
