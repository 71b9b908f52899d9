"""JSON Lines: reading with clear errors, appending so that a kill at any byte loses no finished line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from math import isfinite
from mmap import ACCESS_READ, mmap
from typing import Any

import orjson

from gym_llm.data.files.parsing import refuse_constant
from gym_llm.errors import DataError

_DEEPEST = 200  # levels; orjson's own limit is 254


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the objects of a JSON Lines file, one at a time.

    Args:
        path: The file, UTF-8. Empty lines are passed over.

    Yields:
        Line number (from 1) and object.

    Raises:
        DataError: If the file cannot be read, or a line is not a JSON object.
    """
    for number, line in filled_lines(path):
        yield number, parse_object(line, f"{path}, line {number}")


def filled_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, with their numbers from 1; a DataError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            yield from ((number, line) for number, line in enumerate(file, 1) if not line.isspace())
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None


def parse_object(line: bytes, place: str) -> dict[str, Any]:
    """Parse one line that holds an object; a DataError that names the place if it does not."""
    try:
        value = loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise DataError(f"{place}: expected a JSON object, got {type(value).__name__}.")
    return value


def loads(line: bytes) -> Any:
    """Parse one line, with what `dumps` writes beyond orjson's JSON: lone surrogates and large integers.

    Raises:
        ValueError: If it is not JSON, or not UTF-8.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            return json.loads(line, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            raise error from None


def dumps(value: Any) -> bytes:
    """One JSON line, newline included.

    orjson refuses what JSON strictly cannot say but models do write (lone surrogates, integers beyond 64 bits, nesting
    without end); such a value is written by the standard library instead, escaped, so that no episode is lost for it.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        return json.dumps(_sayable(value, _DEEPEST), allow_nan=False).encode("ascii") + b"\n"


def _sayable(value: Any, depth: int) -> Any:
    """The value in JSON's own types: NaN and infinities null as with orjson, what is nested too deeply a sentence."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if depth == 0:
        return "(nested too deeply to be written)"
    if isinstance(value, dict):
        return {str(key): _sayable(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable(item, depth - 1) for item in value]
    return _sayable(value.tolist(), depth) if hasattr(value, "tolist") else str(value)


def append_line(path: str | os.PathLike[str], value: Any) -> None:
    """Append one line with a single write, so that several writers to one file do not mix."""
    with open(path, "ab", buffering=0) as file:
        write_all(file.fileno(), dumps(value))


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte (`os.write` may stop early on a full disk or a signal)."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def repair_tail(path: str | os.PathLike[str]) -> int:
    """Cut off an unfinished last line, what a kill in the middle of a write leaves.

    Returns:
        How many bytes were cut off: 0 if the last line ends in a newline, or there is no such file.
    """
    if not os.path.exists(path) or not (size := os.path.getsize(path)):
        return 0
    with open(path, "rb+") as file:
        with mmap(file.fileno(), size, access=ACCESS_READ) as content:
            end = content.rfind(b"\n") + 1
        if end < size:
            file.truncate(end)
    return size - end
