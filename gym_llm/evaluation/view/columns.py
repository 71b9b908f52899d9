"""Episodes as columns: what the viewer lists, sorts and filters by, without the episodes themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

OUTCOMES = ("scored", "truncated", "masked", "unreadable")
"""By the number that the column `outcome` has."""

UNREADABLE = 3
MOST_FIELDS = 32
"""How many fields of infos and rows are kept as columns: the first ones that are met."""

COLUMNS: dict[str, np.dtype[Any]] = {
    **{name: np.dtype("<i8") for name in ("offset", "length", "cut", "cut_length", "task", "repeat")},
    **{name: np.dtype("<i8") for name in ("turns", "tool_errors", "tokens")},
    **{name: np.dtype("<f8") for name in ("reward", "seconds")},
    **{name: np.dtype("<i4") for name in ("dataset", "env_id", "failure_kind")},
    "outcome": np.dtype("u1"),
}
"""`offset` and `length` are the line's, without its end; `cut` and `cut_length` say where in it the trajectory is.
`dataset`, `env_id` and `failure_kind` are indices into `Table.strings`, -1 for none."""

NAMES = ("dataset", "env_id", "failure_kind")
_COUNTS = ("task", "repeat", "turns", "tool_errors", "tokens")
SORTABLE = ("n", *_COUNTS, "reward", "seconds", "bytes", *NAMES, "outcome", "answer")
Texts = list[bytes]


@dataclass(slots=True)
class Table:
    """Some episodes of a file, in its order.

    Attributes:
        columns: One array for each of `COLUMNS`.
        strings: What the columns of names, and the texts of fields, refer to.
        numbers: Fields with numbers, NaN where an episode has none.
        texts: Fields with short texts, as indices into `strings`, -1 for none.
        answers: UTF-8, empty for none.
        previews: UTF-8: how the last answer begins, or why there is none.
    """

    columns: dict[str, NDArray[Any]] = field(default_factory=lambda: {n: np.zeros(0, t) for n, t in COLUMNS.items()})
    strings: list[str] = field(default_factory=list)
    numbers: dict[str, NDArray[Any]] = field(default_factory=dict)
    texts: dict[str, NDArray[Any]] = field(default_factory=dict)
    answers: Texts = field(default_factory=list)
    previews: Texts = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns["offset"])

    @property
    def fields(self) -> list[str]:
        """The names of the fields of infos and rows that are columns."""
        return list(dict.fromkeys([*self.numbers, *self.texts]))

    @property
    def end(self) -> int:
        """Where in the file the last line ends; 0 without lines."""
        return int(self.columns["offset"][-1] + self.columns["length"][-1]) if len(self) else 0

    def first(self, count: int) -> Table:
        """The first rows."""
        return Table(
            {name: column[:count] for name, column in self.columns.items()},
            self.strings,
            {name: column[:count] for name, column in self.numbers.items()},
            {name: column[:count] for name, column in self.texts.items()},
            self.answers[:count],
            self.previews[:count],
        )

    def row(self, n: int) -> dict[str, Any]:
        """One episode as the page lists it."""
        columns, is_read = self.columns, self.columns["outcome"][n] != UNREADABLE
        reward, seconds = float(columns["reward"][n]), float(columns["seconds"][n])
        preview = self.previews[n].decode(errors="replace")
        shown: dict[str, Any] = {"n": int(n), "outcome": OUTCOMES[columns["outcome"][n]]}
        shown |= {name: int(columns[name][n]) if is_read else None for name in _COUNTS}
        shown |= {name: self.strings[i] if (i := columns[name][n]) >= 0 else "" for name in NAMES}
        shown["failure_kind"] = shown["failure_kind"] or None
        shown["reward"] = None if np.isnan(reward) else reward
        shown["seconds"] = None if np.isnan(seconds) else seconds
        shown["bytes"] = int(columns["length"][n])
        shown["answer"] = self.answers[n].decode(errors="replace") or None
        shown["preview"] = preview
        shown["error"] = None if is_read else preview
        shown["fields"] = {}
        for name in self.fields:
            if name in self.texts and (i := self.texts[name][n]) >= 0:
                shown["fields"][name] = self.strings[i]
            elif name in self.numbers and not np.isnan(number := float(self.numbers[name][n])):
                shown["fields"][name] = int(number) if number.is_integer() and abs(number) < 2**53 else number
        return shown

    def number(self, name: str) -> NDArray[Any] | None:
        """A column of numbers, NaN where an episode has none; None if the name is of no such column."""
        if name == "n":
            return np.arange(len(self), dtype=float)
        if name in ("reward", "seconds"):
            return self.columns[name]
        if name in _COUNTS:
            return np.where(self.columns["outcome"] == UNREADABLE, np.nan, self.columns[name])
        if name == "bytes":
            return self.columns["length"].astype(float)
        return self.numbers.get(name)

    def order(self, name: str, *, descending: bool = False) -> NDArray[Any]:
        """The rows in the order of a column, those without a value last; equal ones stay in the file's order.

        Raises:
            KeyError: If there is no such column.
        """
        numbers, texts = self.number(name), self._text_keys(name)
        if texts is None:
            if numbers is None:
                raise KeyError(name)
            keys, missing = numbers, np.isnan(numbers)
        elif numbers is None:
            keys, missing = texts.astype(float), texts < 0
        else:  # numbers and texts in one field: numbers first
            ranks = np.full(len(self), np.nan)
            there = ~np.isnan(numbers)
            ranks[there] = np.unique(numbers[there], return_inverse=True)[1]
            keys, missing = np.where(texts >= 0, texts + float(len(self)), ranks), (texts < 0) & ~there
        keys = np.where(missing, 0.0, -keys if descending else keys)
        return np.lexsort((keys, missing))

    def _text_keys(self, name: str) -> NDArray[Any] | None:
        """For each row where its text stands among all texts of a column, -1 for none; None if it has no texts."""
        if name == "outcome":
            return self.columns["outcome"].astype(np.int64)
        if name == "answer":
            answers = np.array(self.answers, dtype=object)
            keys = np.unique(answers, return_inverse=True)[1] if len(answers) else np.zeros(0, np.int64)
            return np.where(np.array([len(answer) for answer in self.answers], np.int64) > 0, keys, -1)
        indices = self.columns[name] if name in NAMES else self.texts.get(name)
        if indices is None:
            return None
        ranks = np.full(len(self.strings) + 1, -1, np.int64)  # the last one is that of index -1
        used = np.unique(indices[indices >= 0])
        ranks[sorted(used.tolist(), key=self.strings.__getitem__)] = np.arange(len(used))
        return ranks[indices]

    def having(self, name: str, text: str) -> NDArray[Any]:
        """Which rows have this text in a column of names, or this outcome."""
        if name == "outcome":
            return self.columns[name] == (OUTCOMES.index(text) if text in OUTCOMES else len(OUTCOMES))
        return self.columns[name] == (self.strings.index(text) if text in self.strings else -1 if text == "" else -2)


def joined(tables: Sequence[Table]) -> Table:
    """Tables of one file, one after the other, as one."""
    if len(tables) < 2:
        return tables[0] if tables else Table()
    whole = Table({name: np.concatenate([table.columns[name] for table in tables]) for name in COLUMNS})
    known: dict[str, int] = {}
    places = [np.array([*(known.setdefault(s, len(known)) for s in t.strings), -1], np.int32) for t in tables]
    whole.strings = list(known)
    for name in NAMES:
        whole.columns[name] = np.concatenate(
            [place[table.columns[name]] for table, place in zip(tables, places, strict=True)]
        )
    names = list(dict.fromkeys(name for table in tables for name in table.fields))[:MOST_FIELDS]
    for name in names:
        if any(name in table.numbers for table in tables):
            whole.numbers[name] = np.concatenate(
                [t.numbers[name] if name in t.numbers else np.full(len(t), np.nan) for t in tables]
            )
        if any(name in table.texts for table in tables):
            whole.texts[name] = np.concatenate(
                [
                    place[table.texts[name]] if name in table.texts else np.full(len(table), -1, np.int32)
                    for table, place in zip(tables, places, strict=True)
                ]
            )
    whole.answers = [answer for table in tables for answer in table.answers]
    whole.previews = [preview for table in tables for preview in table.previews]
    return whole


class TableMaker:
    """Rows that become a table.

    Attributes:
        size: How many rows there are.
    """

    def __init__(self) -> None:
        self.size = 0
        self._columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._strings: dict[str, int] = {}
        self._names: set[str] = set()
        self._numbers: dict[str, list[tuple[int, float]]] = {}
        self._texts: dict[str, list[tuple[int, int]]] = {}
        self._answers: Texts = []
        self._previews: Texts = []

    def add(self, values: dict[str, Any], answer: str, preview: str, fields: Iterable[tuple[str, Any]] = ()) -> None:
        """Add a row: a value for each column (texts for the columns of names), and its fields."""
        columns = self._columns
        for name, value in values.items():
            columns[name].append(value)
        for name in NAMES:
            columns[name][-1] = self._index(columns[name][-1])
        for name, value in fields:
            if name not in self._names and len(self._names) < MOST_FIELDS:
                self._names.add(name)
            if name not in self._names:
                continue
            if isinstance(value, str):
                self._texts.setdefault(name, []).append((self.size, self._index(value)))
            else:
                self._numbers.setdefault(name, []).append((self.size, float(value)))
        self._answers.append(answer.encode(errors="replace"))
        self._previews.append(preview.encode(errors="replace"))
        self.size += 1

    def _index(self, text: str | None) -> int:
        return -1 if not text else self._strings.setdefault(text, len(self._strings))

    def table(self) -> Table:
        """All of them; this is not to be used any more."""
        table = Table({name: np.array(self._columns[name], kind) for name, kind in COLUMNS.items()})
        table.strings = [text.encode(errors="replace").decode() for text in self._strings]
        for name, numbers in self._numbers.items():
            column = np.full(self.size, np.nan)
            column[[n for n, _ in numbers]] = [number for _, number in numbers]
            table.numbers[name] = column
        for name, texts in self._texts.items():
            indices = np.full(self.size, -1, np.int32)
            indices[[n for n, _ in texts]] = [index for _, index in texts]
            table.texts[name] = indices
        table.answers, table.previews = self._answers, self._previews
        return table
