"""Reading rollout files: one record a line, the last of which a kill may have torn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from gym_llm.data.files.jsonl import filled_lines
from gym_llm.data.files.reading import is_compressed, read_lines
from gym_llm.errors import DataError
from gym_llm.records.nemo_records import number_by_line
from gym_llm.records.record import read_record
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import loads

T = TypeVar("T")


def parse_record(line: bytes) -> Rollout:
    """Read one line of a rollout file; raises as `gym_llm.records.record.read_record`."""
    try:
        value = loads(line)
    except ValueError:
        raise DataError("not JSON") from None
    return read_record(value)


def is_torn(line: bytes) -> bool:
    """Whether a file's last line, which does not end in a newline, is what a kill or a full disk left of a record."""
    try:
        value = loads(line)
    except ValueError:
        return line.startswith((b"{", b"\0"))  # a power failure may leave NULs
    try:
        read_record(value)
    except DataError:
        return False  # whole, but something else
    return True


def read_records(path: str | os.PathLike[str]) -> Iterator[tuple[bytes, Rollout]]:
    """Read a rollout file of this or an earlier version.

    Args:
        path: The file, plain or compressed (`.gz`, `.zst`). A torn last line is left out, as are empty ones.

    Yields:
        Line, with its line ending, and record.

    Raises:
        DataError: If the file cannot be read, or a line is not a rollout; names file and line.
    """
    return ((line, record) for _, line, record in numbered_records(path, parse_record))


def numbered_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, with their numbers from 1, compressed or not."""
    name = os.fspath(path)
    if not is_compressed(name):
        return filled_lines(path)
    return ((number, line) for number, line in read_lines(name) if not line.isspace())


def numbered_records(
    path: str | os.PathLike[str],
    parse: Callable[[bytes], T],
    where: Callable[[bytes], object] | None = None,
    problem: str = "is not a rollout",
) -> Iterator[tuple[int, bytes, T]]:
    """Yield line numbers from 1 and what `parse` makes of the lines, as `read_records` does.

    Lines for which `where` is false are skipped. `problem` says in an error what is wrong with a line.
    """
    for number, line in numbered_lines(path):
        if where is not None and not where(line):
            continue
        try:
            record = parse(line)
        except DataError as error:
            if not line.endswith(b"\n") and is_torn(line):
                return
            raise DataError(f"{path}, line {number} {problem}: {error}.") from None
        number_by_line(record, number)
        yield number, line, record
