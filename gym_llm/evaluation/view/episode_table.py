"""Episodes as rows of an SQLite table: what the viewer lists, sorts and filters by, without the episodes themselves."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from threading import RLock
from typing import Any, NamedTuple

import orjson

from gym_llm.records.nemo_records import UNNUMBERED

OUTCOMES = ("scored", "truncated", "masked", "unreadable")
"""By the number in the column `outcome`."""

UNREADABLE = 3
MOST_FIELDS = 32
"""Number of fields of infos and rows that are kept as columns: the first ones that are met."""

COUNTS = ("task", "repeat", "turns", "tool_errors", "tokens", "output_tokens")
NAMES = ("dataset", "env_id", "failure_kind")
_PLACES = ("offset", "length", "cut", "cut_length")
_TEXTS = ("answer", "preview", "prompt")
_OWN = (*_PLACES, "outcome", *COUNTS, "reward", "seconds", *NAMES, *_TEXTS)
_FIELDS = tuple(f"f{n}" for n in range(MOST_FIELDS))
_NUMBERS = {**{name: name for name in ("n", *COUNTS, "reward", "seconds")}, "bytes": "length"}
_SORTED = {**_NUMBERS, **{name: name for name in (*NAMES, "outcome", "answer", "prompt")}}
_SORTED["task_mean"] = "avg(reward) OVER (PARTITION BY dataset, task)"
_COLUMNS = (
    *(f"{name} INTEGER NOT NULL CHECK ({name} >= 0)" for name in _PLACES),
    f"outcome INTEGER NOT NULL CHECK (outcome BETWEEN 0 AND {UNREADABLE})",
    *(f"{name} INTEGER" for name in COUNTS),
    *(f"{name} REAL" for name in ("reward", "seconds")),
    *(f"{name} TEXT" for name in (*NAMES, *_TEXTS)),
    *(f"{name} ANY" for name in _FIELDS),
)
_SCHEMA = (
    f"CREATE TABLE episodes (n INTEGER PRIMARY KEY, {', '.join(_COLUMNS)}, CHECK (cut + cut_length <= length)) STRICT",
    "CREATE TABLE meta (content)",
)
_FIRST_FIELD = 1 + len(_OWN)
_BATCH = 500  # SQLite takes 999 parameters and more
_WRONG = """SELECT count(*) FROM episodes AS this LEFT JOIN episodes AS next ON next.n = this.n + 1
    WHERE this.offset + this.length >= ifnull(next.offset, ?1 + 1)"""
"""Counts the lines that do not end before the next one begins, or before the end of what was read."""


class EpisodeRow(NamedTuple):
    """A row of the list of episodes, from a line of a rollout file.

    `offset` and `length` locate the line without its end; `cut` and `cut_length` locate the trajectory in it. Missing
    values are None. Texts and field names can be encoded in UTF-8. Fields are floats or texts.
    """

    offset: int
    length: int
    cut: int
    cut_length: int
    outcome: int
    task: int | None = None
    repeat: int | None = None
    turns: int | None = None
    tool_errors: int | None = None
    tokens: int | None = None
    output_tokens: int | None = None
    reward: float | None = None
    seconds: float | None = None
    dataset: str | None = None
    env_id: str | None = None
    failure_kind: str | None = None
    answer: str | None = None
    preview: str | None = None
    prompt: str | None = None
    fields: Sequence[tuple[str, Any]] = ()


class EpisodeTable:
    """The episodes of a file, in its order, numbered from 0; may be used in several threads.

    Attributes:
        cache: Values derived from the rows; emptied when they change.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.cache: dict[str, Any] = {}
        self._rows = 0
        self._lock = RLock()
        self._db = _database()

    def __len__(self) -> int:
        return self._rows

    def add(self, rows: Sequence[EpisodeRow]) -> None:
        """Add rows after those there are."""
        with self._lock, self._db:
            self.cache.clear()
            names = dict.fromkeys(name for row in rows for name, _ in row.fields if name not in self._places)
            for name in list(names)[: MOST_FIELDS - len(self._places)]:
                self._places[name] = len(self._places)
            width = len(self._places)
            columns = ", ".join(("n", *_OWN, *_FIELDS[:width]))
            insert = f"INSERT INTO episodes ({columns}) VALUES ({', '.join('?' * (_FIRST_FIELD + width))})"
            self._db.executemany(insert, (self._values(n, row, width) for n, row in enumerate(rows, self._rows)))
            self._rows += len(rows)

    def _values(self, n: int, row: EpisodeRow, width: int) -> list[Any]:
        if row.task == UNNUMBERED and not row.env_id:
            row = row._replace(task=n)
        values: list[Any] = [n, *row[:-1], *[None] * width]
        for name, value in row.fields:
            if (place := self._places.get(name)) is not None:
                values[_FIRST_FIELD + place] = value
        return values

    @property
    def fields(self) -> list[str]:
        """The names of the fields of infos and rows that are columns."""
        return list(self._places)

    def clear(self) -> None:
        """Remove all rows."""
        with self._lock:
            self.cache.clear()
            self._db.close()
            self._db, self._rows, self._places = _database(), 0, {}

    def close(self) -> None:
        """Free the table's memory."""
        with self._lock:
            self._db.close()

    def select(self, what: str, rest: str = "", parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of `SELECT what FROM episodes rest`."""
        with self._lock:
            return self._db.execute(f"SELECT {what} FROM episodes {rest}", parameters).fetchall()

    def find(
        self, where: str, parameters: Sequence[Any], *, sort: str, descending: bool, offset: int, limit: int
    ) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of rows that fulfil a condition, and a page of them in the order of a column.

        Rows without a value come last; equal ones stay in the file's order. `task` sorts by dataset, task and repeat;
        `task_mean` sorts by the mean reward of the rows of one task, and keeps them together.

        Raises:
            KeyError: If the column is unknown.
        """
        order = self._order(sort, descending)
        with self._lock:
            total = self.select("count(*)", f"WHERE {where}", parameters)[0][0]
            page = self.select("n", f"WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?", [*parameters, limit, offset])
            return total, self.rows([n for (n,) in page])

    def position(self, n: int, where: str, parameters: Sequence[Any], *, sort: str, descending: bool) -> int | None:
        """Return the place of an episode among the rows that `find` returns; None if it is not among them.

        Raises:
            KeyError: If the column is unknown.
        """
        inner = f"SELECT n AS it, row_number() OVER (ORDER BY {self._order(sort, descending)}) - 1 AS place"
        inner = f"({inner} FROM episodes WHERE {where})"
        found = self.select("place", f"JOIN {inner} ON it = n WHERE n = ?", [*parameters, n])
        return found[0][0] if found else None

    def _order(self, sort: str, descending: bool) -> str:
        column = self._column(sort, _SORTED)
        down = "DESC" if descending else ""
        if column == "n":
            return f"n {down}"
        by_task = f"dataset {down}, task {down}, repeat, n"
        if sort == "task":
            return f"task IS NULL, {by_task}"
        return f"{column} IS NULL, {column} {down}, {by_task if sort == 'task_mean' else 'n'}"

    def _column(self, name: str, own: dict[str, str]) -> str:
        """The SQL name of a column of the table, or of a field."""
        if name in own:
            return own[name]
        return _FIELDS[self._places[name]]

    def bound(self, name: str, comparison: str) -> str:
        """Return the condition that a column of numbers is `<=` or `>=` a parameter.

        Raises:
            KeyError: If the column is unknown, or has no numbers.
        """
        column = self._column(name, _NUMBERS)
        is_number = f"typeof({column}) IN ('integer', 'real')"
        if name not in _NUMBERS and not self.select("1", f"WHERE {is_number} LIMIT 1"):
            raise KeyError(name)
        return f"({is_number} AND {column} {comparison} ?)"

    def rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return episodes by number as the page lists them."""
        by_number: dict[int, dict[str, Any]] = {}
        for begin in range(0, len(numbers), _BATCH):
            some = numbers[begin : begin + _BATCH]
            for row in self.select("*", f"WHERE n IN ({', '.join('?' * len(some))})", some):
                by_number[row[0]] = self._shown(row)
        return [by_number[n] for n in numbers]

    def row(self, n: int) -> dict[str, Any]:
        """Return one episode as the page lists it."""
        return self.rows([n])[0]

    def _shown(self, row: tuple[Any, ...]) -> dict[str, Any]:
        values = dict(zip(("n", *_OWN), row, strict=False))
        shown = {"n": values["n"], "outcome": OUTCOMES[values["outcome"]]}
        shown |= {name: values[name] for name in (*COUNTS, *NAMES, "reward", "seconds", "answer")}
        shown |= {name: values[name] or "" for name in ("dataset", "env_id", "preview", "prompt")}
        shown["bytes"] = values["length"]
        shown["error"] = shown["preview"] if values["outcome"] == UNREADABLE else None
        fields = zip(self.fields, row[_FIRST_FIELD:], strict=False)
        shown["fields"] = {name: _number(value) for name, value in fields if value is not None}
        return shown

    def packed(self, meta: dict[str, Any]) -> bytes:
        """Return the table as an SQLite database, with something about it."""
        with self._lock, self._db:
            self._db.execute("DELETE FROM meta")
            content = orjson.dumps({**meta, "fields": self.fields, "rows": self._rows})
            self._db.execute("INSERT INTO meta VALUES (?)", (content,))
            self._db.commit()
            return self._db.serialize()

    def unpack(self, data: bytes) -> dict[str, Any]:
        """Replace the rows by those of a packed table.

        Returns:
            Its `meta`.

        Raises:
            ValueError: If the data are not a table of a file of `meta["end"]` bytes, or are damaged.
        """
        saved = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            saved.deserialize(data)
            saved.execute("PRAGMA trusted_schema = OFF")
            schema = tuple(sql for (sql,) in saved.execute("SELECT sql FROM sqlite_schema"))
            if schema != _SCHEMA or saved.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
                raise ValueError("the database is damaged, or of another kind")
            meta = orjson.loads(saved.execute("SELECT content FROM meta").fetchone()[0])
            fields, rows, end = meta["fields"], meta["rows"], meta["end"]
            numbers = saved.execute("SELECT count(*), ifnull(min(n), 0), ifnull(max(n), -1) FROM episodes").fetchone()
            are_right = type(end) is int and numbers == (rows, 0, rows - 1)
            are_right = are_right and len(set(fields)) == len(fields) <= MOST_FIELDS
            if not are_right or not all(type(name) is str for name in fields):
                raise ValueError("the database does not fit its description")
            if saved.execute(_WRONG, (end,)).fetchone()[0]:
                raise ValueError("a row of the database leads nowhere")
            with self._lock:
                self.clear()
                saved.backup(self._db)  # a deserialized database cannot grow beyond a gigabyte
                self._places, self._rows = {name: place for place, name in enumerate(fields)}, rows
            return dict(meta)
        except (sqlite3.Error, TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"not a saved index: {error}") from None
        finally:
            saved.close()


def _database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.text_factory = lambda data: str(data, "utf-8", "replace")  # a saved index may hold anything
    database.executescript(";".join(_SCHEMA))
    return database


def _number(value: Any) -> Any:
    if isinstance(value, bytes):  # of a saved index that somebody has changed
        return None
    is_whole = isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value
