"""Rows of a task source, one at a time: JSON Lines (plain, .gz, .zst), parquet, or a Hugging Face dataset.

A string names a source, so that it can be in a configuration and be sent to any process:

- `train.jsonl`, `train.jsonl.gz`, `train.jsonl.zst`: a JSON Lines file;
- `train.parquet`: one row per record;
- `tasks.csv`, `tasks.tsv`: one row per line, its columns by the first line;
- `hf:ORG/NAME[:CONFIG][:SPLIT][@REVISION]`: a dataset that `datasets.load_dataset` finds, on the hub or in a folder;
  the split is `train` unless it is named. It is streamed, not downloaded first;
- `benchmark:NAME`, and `train` or `validation` for an environment's public data: see `gym_llm.core.named_tasks`;
- any of these and `[START:END]`: only these rows, counted from 0, END not included: `train.jsonl[:1000]`.

`?map=MAPPING` at the end makes tasks of rows with other columns: see `gym_llm.data.files.mapping`.

Memory does not grow with the size of the source. One row is held at a time, or 64 of a parquet file. There are limits
for a row, the window of zstandard and the compression of a parquet file (`gym_llm.utils.limits`).
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from gym_llm.data.files.jsonl import parse_object
from gym_llm.data.files.mapping import map_rows, parse_mapping
from gym_llm.data.files.parquet import read_parquet
from gym_llm.data.files.tables import read_table
from gym_llm.errors import DataError
from gym_llm.records.failures import reason
from gym_llm.utils.extras import install
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.limits import ROW_BYTES, WINDOW_BYTES, limit

BENCHMARK = "benchmark:"
"""Before a benchmark's name: `benchmark:aime25`. `gym_llm.core.named_tasks` finds the file of its tasks."""

ON_READ: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("ON_READ", default=None)
"""Called while a file of lines is read: its name, the bytes read so far, and its size."""

_MAP = "?map="
_TABLES = (".csv", ".tsv")
_NAMES = ("train", "validation")
_PREFIX = "hf:"
_SLICE = re.compile(r"\[(\d*):(\d*)\]$")
_BUFFER_BYTES = 1 << 18
_LINES_PER_REPORT = 256
_MOST_COMPRESSED_BYTES, _LEAST_COMPRESSED_BYTES = 1 << 11, 1 << 4  # 4 bytes of zstandard may become 128 KiB
_LARGEST_WINDOW = 1 << 31  # zstandard's own limit
_CREATE_PARAMS = "responses_create_params"


class Source(NamedTuple):
    """A task source's name, taken apart."""

    name: str
    """The file, or what follows `hf:`."""
    start: int
    """First row, from 0."""
    end: int | None
    """The row before which to stop; None for all."""
    is_hub: bool
    """Whether `datasets` loads it."""
    mapping: str = ""
    """How rows become tasks (`gym_llm.data.files.mapping`); "" if they are tasks."""

    @property
    def label(self) -> str:
        """The source's name in messages, without the part of it that is read."""
        return f"{_PREFIX}{self.name}" if self.is_hub else self.name

    @property
    def is_tabular(self) -> bool:
        """Whether rows come as objects, not as lines."""
        return self.is_hub or self.name.endswith((".parquet", *_TABLES))


def parse_source(source: str | os.PathLike[str]) -> Source:
    """Take a source's name apart.

    >>> parse_source("hf:nvidia/Example:validation[10:20]")
    Source(name='nvidia/Example:validation', start=10, end=20, is_hub=True, mapping='')
    """
    name, _, mapping = os.fspath(source).partition(_MAP)
    start, end = 0, None
    if match := _SLICE.search(name):
        name = name[: match.start()]
        start, end = int(match[1] or 0), int(match[2]) if match[2] else None
    is_hub = name.startswith(_PREFIX)
    return Source(name.removeprefix(_PREFIX), start, end, is_hub, mapping)


def slice_source(source: str, start: int | None = None, end: int | None = None) -> str:
    """The name of a part of a source.

    >>> slice_source("a.jsonl"), slice_source("a.jsonl", end=5)
    ('a.jsonl', 'a.jsonl[:5]')
    """
    if not start and end is None:
        return source
    name, mark, mapping = source.partition(_MAP)
    return f"{name}[{start or ''}:{'' if end is None else end}]{mark}{mapping}"


def mapped_source(source: str, mapping: str) -> str:
    """The name of a source whose rows become tasks by a mapping.

    >>> mapped_source("a.csv", "question=input")
    'a.csv?map=question=input'
    """
    return f"{source}{_MAP}{mapping}"


def absolute_source(source: str) -> str:
    """Return the source with absolute paths, valid in every working directory.

    >>> absolute_source("hf:nvidia/Example[:5]")
    'hf:nvidia/Example[:5]'
    """
    parsed = parse_source(source)
    if parsed.is_hub or is_named(source):
        return source
    path = slice_source(os.path.abspath(parsed.name), parsed.start, parsed.end)
    return mapped_source(path, parsed.mapping) if parsed.mapping else path


def is_named(source: str) -> bool:
    """Whether a source is a name, not a file: a benchmark's, or an environment's public `train` or `validation` data.

    >>> is_named("benchmark:aime25"), is_named("train.jsonl")
    (True, False)
    """
    name = parse_source(source).name
    return name.startswith(BENCHMARK) or (name.partition(":")[0] in _NAMES and not os.path.exists(name))


def read_rows(
    source: str | os.PathLike[str], *, start: int | None = None, end: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """The lines of a source as they are, whatever is in them.

    Args:
        source: See the module.
        start: First row, from 0, instead of the source's own `[START:END]`. Row n of a file is its line n + 1: empty
            lines count.
        end: Stop before this row.

    Yields:
        Line number from 1 (of the whole file, also where `start` leaves rows out), and the line's bytes with its line
        ending. Of a line longer than the limit of `ROW_BYTES` only one byte more than that, by which it
        is known for too long. Rows of parquet files and hub datasets are written as JSON lines.

    Raises:
        DataError: If the source cannot be read, is cut off, or a package it needs is not installed.
    """
    parsed = parse_source(source)
    first = parsed.start if start is None else start
    last = parsed.end if end is None else end
    if parsed.mapping:
        rows = _table_rows(parsed, first, last) if parsed.is_tabular else _objects(parsed, first, last)
        mapped = map_rows(rows, parse_mapping(parsed.mapping), parsed.label)
        yield from ((number, dumps(row)) for number, row in mapped)
    elif parsed.is_tabular:
        yield from ((number, dumps(row)) for number, row in _table_rows(parsed, first, last))
    else:
        yield from read_lines(parsed.name, first, last)


def read_objects(
    source: str | os.PathLike[str], *, start: int | None = None, end: int | None = None, exact: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a source; empty lines are passed over.

    See `read_rows`; a line that is not a JSON object is a DataError, too. With `exact`, integers beyond 64 bits stay
    integers, which takes longer.

    Yields:
        Line number from 1, and object.
    """
    yield from _parsed(read_rows(source, start=start, end=end), parse_source(source).label, exact)


def _objects(source: Source, start: int, end: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    return _parsed(read_lines(source.name, start, end), source.label)


def _parsed(
    lines: Iterable[tuple[int, bytes]], label: str, exact: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    most = limit(ROW_BYTES)
    for number, line in lines:
        if line.isspace():
            continue
        if len(line) > most:
            raise DataError(f"{label}, line {number}: {too_long(most)}.")
        yield number, parse_object(line, f"{label}, line {number}", exact)


def too_long(most: int) -> str:
    """Return the message for a row with more bytes than the limit."""
    return f"longer than {most / (1 << 20):.4g} MiB (the variable {ROW_BYTES} raises that)"


def is_compressed(path: str) -> bool:
    """Whether a file's name says that it has to be decompressed."""
    return path.endswith((".gz", ".zst"))


def read_lines(path: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSON Lines file, as `read_rows` gives them."""
    try:
        with open(path, "rb", buffering=_BUFFER_BYTES) as raw, _decompressed(path, raw) as file:
            number, most = 0, limit(ROW_BYTES)
            on_read, size = ON_READ.get(), os.fstat(raw.fileno()).st_size
            while end is None or number < end:
                if on_read is not None and number % _LINES_PER_REPORT == 0:
                    on_read(path, raw.tell(), size)
                line = file.readline(most + 1)
                if not line:
                    return
                number += 1
                if number > start:
                    yield number, line
                while len(line) > most and not line.endswith(b"\n"):
                    line = file.readline(most + 1)
    except EOFError:
        raise DataError(f"{path} is cut off: its compressed data ends in the middle.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be decompressed: {error}.") from None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None


def _decompressed(path: str, file: BinaryIO) -> BinaryIO:
    if path.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=file), _BUFFER_BYTES)  # type: ignore[arg-type]
    if path.endswith(".zst"):
        return io.BufferedReader(_ZstdReader(file), _BUFFER_BYTES)
    return file


class _ZstdReader(io.RawIOBase):
    """Decompressed bytes of a file of zstandard frames; unlike zstandard's own reader it notices a file cut off."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            import zstandard
        except ModuleNotFoundError:
            raise DataError(f"A .zst file needs zstandard: {install('data')}.") from None
        self._file = file
        self._error = zstandard.ZstdError
        self._window = limit(WINDOW_BYTES)
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=min(self._window, _LARGEST_WINDOW))
        self._frame: Any = None
        self._output = memoryview(b"")
        self._input = b""
        self._step = _LEAST_COMPRESSED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            self._input = self._input or self._file.read(self._step)
            if not self._input:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._frame = self._frame or self._decompressor.decompressobj()
            try:
                self._output = memoryview(self._frame.decompress(self._input))
            except self._error as error:
                large = "too much memory" in str(error)
                window = f"its window is larger than {self._window >> 20} MiB, compress it again without --long, or set"
                hint = f"{window} {WINDOW_BYTES} to more bytes" if large else str(error)
                raise zlib.error(hint) from None
            self._input = self._frame.unused_data
            step = self._step // 2 if len(self._output) > _BUFFER_BYTES else self._step * 2
            self._step = min(max(step, _LEAST_COMPRESSED_BYTES), _MOST_COMPRESSED_BYTES)
            if self._frame.eof:
                self._frame = None
        size = min(len(buffer), len(self._output))
        buffer[:size] = self._output[:size]
        self._output = self._output[size:]
        return size


def _table_rows(source: Source, start: int, end: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    if source.is_hub:
        rows = _hub_rows(source.name, start)
    elif source.name.endswith(_TABLES):
        rows = islice(read_table(source.name, source.name), start, None)
    else:
        rows = read_parquet(source.name, start, limit(ROW_BYTES))
    for number, row in islice(enumerate(rows, start + 1), None if end is None else max(0, end - start)):
        if _CREATE_PARAMS in row:
            row[_CREATE_PARAMS] = _without_nulls(row[_CREATE_PARAMS])
        yield number, row


def _without_nulls(value: Any) -> Any:
    """A column has one type for all rows, so a field that any row has is null in all others: it was not there."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _hub_rows(name: str, start: int) -> Iterator[dict[str, Any]]:
    try:
        import datasets
    except ModuleNotFoundError:
        raise DataError(f"{_PREFIX}{name} needs datasets: {install('data')}.") from None
    place, _, revision = name.partition("@")
    repository, *parts = place.split(":")
    config, split = (parts[0], parts[1]) if len(parts) > 1 else (None, parts[0] if parts else "")
    try:
        rows = datasets.load_dataset(
            repository, config or None, split=split or "train", revision=revision or None, streaming=True
        )
        yield from rows.skip(start) if start else rows
    except Exception as error:  # what the hub, the network and each file format raise has no common class
        first_line = reason(error).partition("\n")[0]
        raise DataError(f"Cannot load {_PREFIX}{name} ({first_line}).") from error
