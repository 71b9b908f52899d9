"""Raw rows of files as the world keeps them: CSV, TSV, JSON and JSON Lines, parquet, and archives of these."""

from __future__ import annotations

import fnmatch
import gzip
import sqlite3
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from gym_llm.data.files.reading import read_objects
from gym_llm.data.files.tables import read_table
from gym_llm.errors import DataError
from gym_llm.types import Row
from gym_llm.utils.json_codec import loads
from gym_llm.utils.limits import EXPANSION, FILE_BYTES, ROW_BYTES, limit

READABLE = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".csv", ".tsv", ".parquet", ".txt", ".py", ".sqlite")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
_JSON_ROWS = 32  # of the largest size: what a JSON file may hold, which is read as a whole
_FREE_BYTES = 1 << 26  # what every archive may hold, however small it is
_CHUNK = 1 << 20
_DAMAGES = (
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    tarfile.TarError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    zlib.error,
)


def read_raw(
    path: str | Path,
    *,
    name: str = "",
    member: str | None = None,
    columns: Sequence[str] = (),
    ragged: bool = False,
    text: bool = False,
) -> Iterator[Row]:
    """The rows of a file.

    Args:
        path: The file.
        name: Its name where it came from, which says its format; "" for the path's.
        member: A pattern for the members of an archive; None for all that can be read. Each row of a member has the
            member's name under `_member`.
        columns: The columns of a CSV file that has no header.
        ragged: Whether a line of a CSV file may lack its last values.
        text: Whether a file is one row, `{"text": …}`, whatever its format.

    Yields:
        Rows. A CSV file's values are texts. A text file is one row, `{"text": …}`. So is a database: its dump, with the
        first rows of each table.

    Raises:
        DataError: If the file cannot be read, or is larger than the limits allow.
    """
    name = name or str(path)
    if name.endswith(ARCHIVES):
        yield from _archive_rows(Path(path), name, member, {"columns": columns, "ragged": ragged, "text": text})
    elif name.endswith(".gz") and not name.endswith(".jsonl.gz"):
        with _unzipped(Path(path), name) as file:
            yield from read_raw(file, name=name.removesuffix(".gz"), columns=columns, ragged=ragged, text=text)
    elif text or name.endswith((".txt", ".py")):
        _check_size(path, name, limit(ROW_BYTES))
        yield {"text": Path(path).read_bytes().decode(errors="ignore")}  # line ends as they are
    elif name.endswith((".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")):
        with _named(path, name) as file:
            yield from (row for _, row in read_objects(str(file), exact=True))
    elif name.endswith((".csv", ".tsv")):
        yield from read_table(path, name, columns, ragged=ragged)
    elif name.endswith(".json"):
        yield from _json_rows(path, name)
    elif name.endswith(".sqlite"):
        yield {"text": _dump(path, name)}
    else:
        raise DataError(f"{name} has no format that is read here: {', '.join((*READABLE, *ARCHIVES))}.")


@contextmanager
def _named(path: str | Path, name: str) -> Iterator[Path]:
    """The file under a name that ends as its format does: a hub's cache names files by their hash."""
    suffix = next(suffix for suffix in READABLE if name.endswith(suffix))
    if str(path).endswith(suffix):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="gym-llm-") as folder:
        link = Path(folder, f"file{suffix}")
        link.symlink_to(Path(path).resolve())
        try:
            yield link
        except DataError as error:
            raise DataError(str(error).replace(str(link), name)) from None


_SHOWN_ROWS = 12


def _dump(path: str | Path, name: str) -> str:
    """A database as SQL, with twelve INSERTs in a row at most."""
    lines: list[str] = []
    size = inserts = 0
    try:
        with closing(sqlite3.connect(f"file:{quote(str(Path(path).resolve()))}?immutable=1", uri=True)) as database:
            database.text_factory = lambda data: data.decode(errors="ignore")
            for line in database.iterdump():
                inserts = inserts + 1 if line.startswith("INSERT") else 0
                if inserts <= _SHOWN_ROWS:
                    size += len(line)
                    if size > limit(ROW_BYTES):
                        raise DataError(f"The schema of {name} is larger than {limit(ROW_BYTES) >> 20} MiB.")
                    lines.append(line)
    except sqlite3.Error as error:
        raise DataError(f"{name} is not a readable SQLite database: {error}.") from None
    return "".join(f"{line.replace(chr(10), ' ') if line.startswith('INSERT') else line}\n" for line in lines)


def _json_rows(path: str | Path, name: str) -> Iterator[Row]:
    """Rows of a JSON array, or of an object's only array; of a file with an object per line, too."""
    _check_size(path, name, _JSON_ROWS * limit(ROW_BYTES))
    data = Path(path).read_bytes()
    try:
        value: Any = loads(data)
    except ValueError:
        try:
            value = [loads(line) for line in data.splitlines() if line.strip()]
        except ValueError as error:
            raise DataError(f"{name} is not JSON: {error}.") from None
    if isinstance(value, dict):
        arrays = [each for each in value.values() if isinstance(each, list)]
        value = arrays[0] if len(arrays) == 1 and all(isinstance(row, dict) for row in arrays[0]) else [value]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise DataError(f"{name} is not a JSON array of objects.")
    yield from value


def _check_size(path: str | Path, name: str, most: int) -> None:
    """Refuse a file that has to be read as a whole, if it is larger than this."""
    if Path(path).stat().st_size > most:
        raise DataError(f"{name} has more than {most >> 20:,} MiB, and is read as a whole: see {ROW_BYTES}.")


def unpack(path: str | Path, name: str, member: str | None, folder: Path) -> None:
    """Write an archive's members into a folder, each under the last part of its name.

    Args:
        path: The archive.
        name: Its name where it came from, which says its format.
        member: A pattern for its members, as in `read_raw`.
        folder: The folder.

    Raises:
        DataError: If the archive cannot be read, expands too far, or two members have one name.
    """
    for inner, file, budget in _chosen(Path(path), name, member, None):
        target = folder / Path(inner).name
        if target.exists():
            raise DataError(f"{name} has two members {target.name}.")
        with open(target, "wb") as copy:
            budget.copy(file, copy)


@contextmanager
def _unzipped(path: Path, name: str) -> Iterator[Path]:
    """The file without its compression, within an archive's limits."""
    budget = _Budget(name, _FREE_BYTES + limit(EXPANSION) * path.stat().st_size)
    with tempfile.NamedTemporaryFile(prefix="gym-llm-") as copy:
        with gzip.open(path) as file:
            budget.copy(file, copy)
        copy.flush()
        yield Path(copy.name)


def _archive_rows(path: Path, name: str, member: str | None, form: dict[str, Any]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="gym-llm-") as folder:
        for inner, file, budget in _chosen(path, name, member, None):
            target = Path(folder, "member")
            with open(target, "wb") as copy:
                budget.copy(file, copy)
            for row in read_raw(target, name=inner, **form):
                yield {**row, "_member": inner}


def _chosen(
    path: Path, name: str, member: str | None, budget: _Budget | None
) -> Iterator[tuple[str, IO[bytes], _Budget]]:
    """The members that fit a pattern; `OUTER!INNER` are those of an archive in the archive."""
    budget = budget or _Budget(name, _FREE_BYTES + limit(EXPANSION) * path.stat().st_size)
    outer, mark, within = (member or "").partition("!")
    for inner, file in _members(path, name):
        if not (fnmatch.fnmatch(inner, outer) if outer else inner.endswith(READABLE)):
            continue
        if not mark:
            yield inner, file, budget
            continue
        with tempfile.NamedTemporaryFile(prefix="gym-llm-") as copy:
            budget.copy(file, copy)
            copy.flush()
            yield from _chosen(Path(copy.name), inner, within, budget)


def _members(path: Path, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        if name.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist():
                    if not info.is_dir():
                        with archive.open(info) as file:
                            yield info.filename, file
            return
        with tarfile.open(path) as tar:
            for entry in tar:
                if entry.isfile() and (content := tar.extractfile(entry)):
                    yield entry.name, content
    except _DAMAGES as error:
        raise DataError(f"{name} is not a readable archive: {error}.") from None


class _Budget:
    """Counts what an archive expands to."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most, self._left = name, most, most

    def copy(self, source: IO[bytes] | gzip.GzipFile, target: Any) -> None:
        while chunk := self._read(source):
            self._left -= len(chunk)
            if self._left < 0:
                raise DataError(f"{self._name} expands to more than {self._most >> 20:,} MiB: see {EXPANSION}.")
            target.write(chunk)

    def _read(self, source: IO[bytes] | gzip.GzipFile) -> bytes:
        try:
            return source.read(_CHUNK)
        except _DAMAGES as error:
            raise DataError(f"{self._name} is damaged: {error}.") from None


def check_size(name: str, size: int) -> None:
    """Raise a DataError if a file is larger than the limit `FILE_BYTES`."""
    if size > (most := limit(FILE_BYTES)):
        raise DataError(f"{name} has more than {most >> 20:,} MiB: see {FILE_BYTES}.")
