"""The index of a large rollout file, beside it as `.NAME.index`: columns of numbers, no code, checked before use."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from gym_llm.data.files.atomic import replacing
from gym_llm.errors import DataError
from gym_llm.evaluation.view.columns import COLUMNS, MOST_FIELDS, NAMES, OUTCOMES, Table

_MAGIC = b"gym_llm view 1\n\0"
_SUM = 16  # bytes
_LARGEST = 8 << 30


@dataclass(slots=True)
class SavedIndex:
    """What an index says.

    Attributes:
        table: The rows.
        end: Where the line after them begins.
        fingerprint: A hash of bytes of the file, so that another file's index is not taken for its own.
    """

    table: Table
    end: int
    fingerprint: str


def index_paths(path: Path) -> list[Path]:
    """Where a file's index may be: beside it, or in the user's cache where that folder cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = blake2b(os.fsencode(os.path.realpath(path)), digest_size=16).hexdigest()
    return [path.with_name(f".{path.name}.index"), cache / "gym_llm" / "view" / f"{key}.index"]


def save_index(path: Path, status: os.stat_result, index: SavedIndex) -> None:
    """Write the index of a file (its status is given) where it can be written, whole or not at all."""
    data = _packed(status, index)
    for place in index_paths(path):
        with suppress(DataError, OSError), replacing(place) as file:
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode) & 0o666)  # who may not read it may not read this
            file.write(data)
            return


def load_index(path: Path, status: os.stat_result) -> SavedIndex | None:
    """The index of a file, if there is one, it is whole, and made of this file or of how it began."""
    for place in index_paths(path):
        with suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
            return _unpacked(_read(place), status)
    return None


def _identity(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def _packed(status: os.stat_result, index: SavedIndex) -> bytes:
    table = index.table
    strings = [text.encode() for text in table.strings]
    blocks: list[tuple[str, bytes]] = [
        (name, table.columns[name].astype(kind).tobytes()) for name, kind in COLUMNS.items()
    ]
    blocks += [("number", column.astype("<f8").tobytes()) for column in table.numbers.values()]
    blocks += [("text", column.astype("<i4").tobytes()) for column in table.texts.values()]
    for texts in (strings, table.answers, table.previews):
        blocks.append(("ends", np.cumsum([len(text) for text in texts], dtype="<i8").tobytes()))
        blocks.append(("bytes", b"".join(texts)))
    header = {
        "source": _identity(status),
        "end": index.end,
        "fingerprint": index.fingerprint,
        "rows": len(table),
        "strings": len(strings),
        "numbers": list(table.numbers),
        "texts": list(table.texts),
        "blocks": [len(block) for _, block in blocks],
    }
    head = orjson.dumps(header)
    content = b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, *(block for _, block in blocks)])
    return content + blake2b(content, digest_size=_SUM).digest()


def _read(place: Path) -> bytes:
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise ValueError("no index")
        return file.read()


def _check(holds: Any) -> None:
    if not holds:
        raise ValueError("not an index of this file")


def _unpacked(data: bytes, status: os.stat_result) -> SavedIndex:
    """Raises ValueError, KeyError, TypeError or OverflowError for whatever is not right."""
    content, digest = memoryview(data)[:-_SUM], data[-_SUM:]
    _check(bytes(content[: len(_MAGIC)]) == _MAGIC and blake2b(content, digest_size=_SUM).digest() == digest)
    begin = len(_MAGIC) + 8
    length = int.from_bytes(content[begin - 8 : begin], "little")
    header = orjson.loads(content[begin : begin + length])
    device, inode, size, changed = header["source"]
    now = _identity(status)
    _check([device, inode] == now[:2] and (status.st_size > size or [size, changed] == now[2:]))
    rows, lengths = header["rows"], header["blocks"]
    _check(type(rows) is int and rows >= 0 and all(type(n) is int and n >= 0 for n in lengths))
    blocks, begin = [], begin + length
    for length in lengths:
        blocks.append(content[begin : begin + length])
        begin += length
    _check(begin == len(content))
    queue = iter(blocks)
    table = Table({name: np.frombuffer(next(queue), kind) for name, kind in COLUMNS.items()})
    table.numbers = {_name(name): np.frombuffer(next(queue), "<f8") for name in header["numbers"]}
    table.texts = {_name(name): np.frombuffer(next(queue), "<i4") for name in header["texts"]}
    table.strings = [text.decode() for text in _texts(next(queue), next(queue), header["strings"])]
    table.answers = _texts(next(queue), next(queue), rows)
    table.previews = _texts(next(queue), next(queue), rows)
    end = header["end"]
    _check(next(queue, None) is None and type(end) is int and type(header["fingerprint"]) is str)
    _check_columns(table, rows, end)
    return SavedIndex(table, end, header["fingerprint"])


def _check_columns(table: Table, rows: int, end: int) -> None:
    """Make sure that every number leads to a place that there is."""
    columns = table.columns
    _check(len(table.fields) <= MOST_FIELDS)
    _check(all(len(each) == rows for each in (*columns.values(), *table.numbers.values(), *table.texts.values())))
    ends = columns["offset"] + columns["length"]
    _check((columns["offset"] >= 0).all() and (columns["length"] >= 0).all() and (ends >= columns["offset"]).all())
    _check((columns["offset"][1:] > ends[:-1]).all() and (not rows or ends[-1] <= end))
    cuts = columns["cut"] + columns["cut_length"]
    _check((columns["cut"] >= 0).all() and (columns["cut_length"] >= 0).all() and (cuts <= columns["length"]).all())
    _check((columns["outcome"] < len(OUTCOMES)).all())
    for indices in (*(columns[name] for name in NAMES), *table.texts.values()):
        _check((indices >= -1).all() and (indices < len(table.strings)).all())


def _name(name: Any) -> str:
    _check(type(name) is str)
    return name


def _texts(ends: memoryview, content: memoryview, count: int) -> list[bytes]:
    places = np.frombuffer(ends, "<i8")
    _check(len(places) == count and (np.diff(places, prepend=0) >= 0).all())
    _check((int(places[-1]) if count else 0) == len(content))
    whole, begin, texts = bytes(content), 0, []
    for end in places.tolist():
        texts.append(whole[begin:end])
        begin = end
    return texts
