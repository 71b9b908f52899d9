"""The JSON codec of records and files: `dumps` writes every value, `loads` reads what it wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

import orjson

from gym_llm.errors import BadRow
from gym_llm.utils.secrets import is_in_json, redact_values

_DEEPEST = 200  # levels; orjson's own limit is 254
_MOST_BITS = 14_000  # of an integer: Python reads and writes 4,300 digits


def loads(line: bytes) -> Any:
    """Parse one line, with the lone surrogates that `dumps` writes beyond orjson's JSON.

    Integers beyond 64 bits come back as the nearest float.

    Raises:
        ValueError: If it is not JSON, or not UTF-8 (a byte order mark is neither).
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            return json.loads(line.decode(), parse_constant=refuse_constant, parse_float=_finite)
        except (ValueError, RecursionError):
            raise error from None


def _finite(text: str) -> float:
    if isfinite(value := float(text)):
        return value
    raise ValueError(f"{text} is too large for a number")


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Return a value as one JSON line, newline included, or as several indented ones. Accepts every value.

    Models write values that strict JSON cannot express (lone surrogates, integers beyond 64 bits, deep nesting), and
    orjson refuses them. The standard library writes these values, escaped, so that no episode is lost. A value that
    cannot be written at all, such as an object whose `__str__` raises, is replaced by a text that says so.
    """
    layout = orjson.OPT_INDENT_2 if indent else 0
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY | layout)
    except Exception:  # an object in it may raise anything while it is looked at
        sayable = _sayable(value, _DEEPEST, set())
        return json.dumps(sayable, allow_nan=False, indent=2 if indent else None).encode("ascii") + b"\n"


def dumps_record(record: Mapping[str, Any]) -> bytes:
    """A record's line, with `***` for what this process knows to be secret; ids of environments and datasets stay."""
    line = dumps(record)
    if not is_in_json(line):
        return line
    # The trajectory is numbers, most of a record's bytes, and not to be touched: it is neither searched nor parsed.
    line = dumps({name: value for name, value in record.items() if name != "trajectory"})
    if is_in_json(line):
        written = loads(line)
        kept = {name: written[name] for name in ("env_id", "dataset") if name in written}
        line = dumps({**redact_values(written), **kept})
    if "trajectory" in record:
        line = b'%b,"trajectory":%b}\n' % (line[:-2], dumps(record["trajectory"])[:-1])
    return line


def _sayable(value: Any, depth: int, parents: set[int]) -> Any:
    try:
        return _said(value, depth, parents)
    except Exception:
        return f"(cannot be written: {type(value).__name__})"


def _said(value: Any, depth: int, parents: set[int]) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise ValueError("Python does not read so long an integer")
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if depth == 0:
        return "(nested too deeply to be written)"
    if isinstance(value, (dict, list, tuple)):
        if id(value) in parents:
            return "(a part of itself)"
        parents.add(id(value))
        try:
            if isinstance(value, dict):
                return {_sayable_key(key): _sayable(item, depth - 1, parents) for key, item in value.items()}
            return [_sayable(item, depth - 1, parents) for item in value]
        finally:
            parents.discard(id(value))
    if hasattr(value, "tolist"):
        return _sayable(value.tolist(), depth - 1, parents)
    try:
        return orjson.loads(orjson.dumps(value))  # a date or the like, as orjson writes it elsewhere
    except TypeError:
        return str(value)


def _sayable_key(key: Any) -> str:
    try:
        return key if isinstance(key, str) else str(key)
    except Exception:
        return f"(cannot be written: {type(key).__name__})"


def refuse_constant(name: str) -> NoReturn:
    """Raise BadRow, for `json.loads` to call where it would accept `NaN` and `Infinity`."""
    raise BadRow("NaN and Infinity are not JSON; write null or leave the field out", f"found {name}")
