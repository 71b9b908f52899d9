"""Strict parsing of one line of a JSON Lines file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

import orjson

from gym_llm.errors import BadRow
from gym_llm.utils.json_codec import refuse_constant

_BOM = b"\xef\xbb\xbf"
_MAX_DEPTH = 200  # orjson reads 1024 levels, but writes 254


def parse_line(line: bytes) -> dict[str, Any]:
    r"""Read a line strictly: everything that JSON readers interpret differently is refused.

    Args:
        line: The line, with or without its line ending.

    Raises:
        BadRow: If the line is empty, ends in CRLF or begins with a byte order mark. If it is not UTF-8, not JSON (NaN
            and Infinity are not), not an object or nested too deeply. If an object has a key twice.

    >>> parse_line(b'{"a": 1, "a": 2}')  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    BadRow: an object has the same key twice ('a')
    """
    if line.endswith(b"\r\n"):
        raise BadRow(r"the line ends in CRLF (\r\n); end lines with \n alone")
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        _explain(line, error)
    if type(row) is not dict:
        kind = {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}.get(type(row), "a number")
        raise BadRow(f"expected a JSON object, got {kind}")
    if _repeats_a_key(line, row):
        json.loads(line, object_pairs_hook=_refuse_repeated_keys)  # says which
    return row


def _explain(line: bytes, error: orjson.JSONDecodeError) -> NoReturn:
    if not line.strip():
        raise BadRow("the line is empty") from None
    if line.startswith(_BOM):
        raise BadRow("the file begins with a byte order mark (BOM); save it as UTF-8 without one") from None
    try:
        text = line.decode()
    except UnicodeDecodeError as problem:
        place = f"byte 0x{line[problem.start]:02x} at position {problem.start + 1}"
        raise BadRow("the line is not valid UTF-8", place) from None
    try:
        json.loads(text, parse_constant=refuse_constant, object_pairs_hook=_refuse_repeated_keys)
    except BadRow:
        raise
    except (ValueError, RecursionError):
        pass
    message = re.sub(r": line \d+ column (\d+) \(char \d+\)$", r" at position \1", str(error))
    raise BadRow("not JSON", message) from None


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise BadRow("an object has the same key twice", repr(key))
            keys.add(key)
    return value


def _repeats_a_key(line: bytes, row: dict[str, Any]) -> bool:
    r"""Whether an object in the line has a key twice.

    orjson keeps the last of two equal keys, so the line then has more strings than the object. Its strings are counted
    by their quotes, without those that are escaped (`\"` where the backslash is not itself escaped).
    """
    escaped = 0
    if b"\\" in line:
        line = line.replace(rb"\\", b"")
        escaped = line.count(rb"\"")
    return line.count(b'"') - escaped != 2 * _count_strings(row, 1)


def _count_strings(value: dict[str, Any] | list[Any], depth: int) -> int:
    """Strings in a value, keys among them."""
    if depth > _MAX_DEPTH:
        raise BadRow(f"the line is nested more than {_MAX_DEPTH} levels deep")
    count = 0
    parts: Iterable[Any] = value
    if type(value) is dict:
        count = len(value)
        parts = value.values()
    for part in parts:
        kind = type(part)
        if kind is str:
            count += 1
        elif kind is dict or kind is list:
            count += _count_strings(part, depth + 1)
    return count
