"""JSON Lines: reading with clear errors, appending so that a kill at any byte loses no finished line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from typing import Any

from gym_llm.errors import DataError
from gym_llm.utils.json_codec import dumps, loads

_DEEPEST = 200  # levels; orjson's own limit is 254
_MOST_BITS = 14_000  # of an integer: Python reads and writes 4,300 digits


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


_LONG_INTEGER = re.compile(rb"(?<![.\d])\d{19}")


def parse_object(line: bytes, place: str, exact: bool = False) -> dict[str, Any]:
    """Parse one line that holds an object; a DataError that names the place if it does not.

    With `exact`, integers beyond 64 bits stay integers.
    """
    try:
        value = loads(line)
        if exact and _LONG_INTEGER.search(line):
            value = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise DataError(f"{place}: expected a JSON object, got {type(value).__name__}.")
    return value


def append_line(path: str | os.PathLike[str], value: Any) -> None:
    """Append one line with a single write, so that several writers to one file do not mix."""
    with open(path, "ab", buffering=0) as file:
        write_all(file.fileno(), dumps(value))


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte (`os.write` may stop early on a full disk or a signal)."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def repair_tail(path: str | os.PathLike[str]) -> int:
    """Cut off an unfinished last line, which a kill during a write leaves.

    Returns:
        The number of bytes cut off: 0 if the last line ends in a newline, or the file is missing.
    """
    if length := len(read_tail(path)):
        os.truncate(path, os.path.getsize(path) - length)
    return length


def read_tail(path: str | os.PathLike[str]) -> bytes:
    """Return the unfinished last line of a file: empty if it ends in a newline, or the file is missing."""
    if not os.path.exists(path) or not os.path.getsize(path):
        return b""
    with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return content[content.rfind(b"\n") + 1 :]
