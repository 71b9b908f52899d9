"""An office's tables: shared by all episodes as they were at first, copied by the one that writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import is_
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
"""A row: every value a str, or None where there is none (`user_engaged` of a visit is a bool)."""

_READABLE = 1_000_000
"""Characters of records that an episode's searches give out; no answer of a model needs as many."""
_SEARCH = 10_000
"""Of these each search counts as so many, whatever it finds: reading tables takes time."""
_CASED = {"status", "list_name", "board"}
_LONG = 5_000
_TOO_MUCH = "you have searched too much; nothing more is given out"


class OfficeData:
    """An office as every episode finds it. It is pickled as what it was made from.

    Args:
        make: Makes it, from `key`.
        key: A generated office's seed, or the folder of its tables.
        tables: By name: emails, events, visits, tasks, customers.
        directory: The company's e-mail addresses.
    """

    def __init__(
        self, make: Callable[[Any], OfficeData], key: Any, tables: dict[str, list[Record]], directory: list[str]
    ) -> None:
        self.make, self.key, self.tables, self.directory = make, key, tables, directory

    def __reduce__(self) -> tuple[Any, ...]:
        return self.make, (self.key,)


class Table:
    """A table of an episode.

    Attributes:
        rows: The records in order; neither the list nor a record is changed in place.
        labels: pandas' row labels, which count in NeMo Gym's comparison; None for 0, 1, 2, … They have gaps after a
            deletion, until a row is added.
    """

    def __init__(self, data: OfficeData, name: str) -> None:
        self._data, self._name = data, name
        self.rows = data.tables[name]
        self.labels: list[int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        untouched = self.rows is self._data.tables[self._name]
        return self.__dict__ | {"rows": None} if untouched else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.rows is None:
            self.rows = self._data.tables[self._name]

    def find(self, column: str, value: str) -> Record | None:
        """Return the first record with this value, or None."""
        return next((row for row in self.rows if row[column] == value), None)

    def add(self, record: Record) -> None:
        """Append a record."""
        self.rows = [*self.rows, record]
        self.labels = None

    def delete(self, column: str, value: str) -> bool:
        """Leave out the records with this value; whether there were any."""
        kept = [index for index, row in enumerate(self.rows) if row[column] != value]
        if len(kept) == len(self.rows):
            return False
        self.labels = kept if self.labels is None else [self.labels[index] for index in kept]
        self.rows = [self.rows[index] for index in kept]
        return True

    def update(self, column: str, value: str, name: str, new: str) -> bool:
        """Set a field of the records with this value; whether there were any."""
        rows = [row | {name: new} if row[column] == value else row for row in self.rows]
        if all(map(is_, rows, self.rows)):
            return False
        self.rows = rows
        return True

    def next_id(self, column: str, digits: int = 1) -> str:
        """Return the next id: the largest number plus one, with at least the given digits."""
        ids = [row[column] for row in self.rows]
        try:
            largest = max(map(int, ids), default=0)
        except ValueError:  # a task's or customer's id can be changed to anything
            largest = max((int(value) for value in ids if value.isdecimal() and len(value) < 20), default=0)
        return str(largest + 1).zfill(digits)

    def same(self, other: Table, labels: bool = True) -> bool:
        """Whether both have the same records in the same order, upper and lower case aside, and the same labels."""
        if self.rows is other.rows:
            return True
        if len(self.rows) != len(other.rows):
            return False
        if labels and self.labels != other.labels:
            numbers = list(range(len(self.rows)))
            if (self.labels or numbers) != (other.labels or numbers):
                return False
        return all(a is b or _folded(a) == _folded(b) for a, b in zip(self.rows, other.rows, strict=True))


@dataclass
class Office:
    """The office of an episode."""

    data: OfficeData
    plots: list[str] = field(default_factory=list)
    readable: int = _READABLE

    def __post_init__(self) -> None:
        self.emails, self.events, self.tasks, self.customers = (
            Table(self.data, name) for name in ("emails", "events", "tasks", "customers")
        )

    def same(self, other: Office) -> bool:
        """Whether all that can be changed is the same in both."""
        return (
            self.events.same(other.events, labels=False)  # a new event's label is always 0, others keep theirs
            and self.emails.same(other.emails)
            and [plot.lower() for plot in self.plots] == [plot.lower() for plot in other.plots]
            and self.tasks.same(other.tasks)
            and self.customers.same(other.customers)
        )

    def begin_search(self) -> None:
        """Count a search.

        Raises:
            ValueError: If there were too many, or they have given out too much.
        """
        self.readable -= _SEARCH
        if self.readable < 0:
            raise ValueError(_TOO_MUCH)

    def give_out(self, records: list[Record]) -> list[Record]:
        """The records, if the episode has not been given too much already.

        Raises:
            ValueError: If it has.
        """
        self.readable -= sum(len(str(value)) for record in records for value in record.values())
        if self.readable < 0:
            raise ValueError(_TOO_MUCH)
        return records

    def page(self, kind: str, records: list[Record], page: int, size: int) -> dict[str, Any] | str:
        """Return a page of a search's results, or a sentence if there are no results."""
        if not records:
            return f"No {kind} found."
        pages = -(-len(records) // size)
        page = max(1, min(page, pages))
        return {
            kind: self.give_out(records[(page - 1) * size : page * size]),
            "pagination": {f"total_{kind}": len(records), "page": page, "page_size": size, "total_pages": pages},
        }


def contains(value: Any, text: str) -> bool:
    """Whether a field has `text` (in lower case) in it, upper and lower case aside."""
    return isinstance(value, str) and text in lower(value)


def lower(text: str) -> str:
    """The text in lower case; those of the tables are remembered."""
    return _remembered(text) if len(text) < _LONG else text.lower()


def words_text(subject: str | None, body: str | None, address: str) -> str:
    """Return the searchable text of an e-mail in lower case; "nan" for a missing text, as in pandas."""
    if body is not None and len(body) > _LONG:
        return f"{subject or 'nan'} {body} {address}".lower()
    return _joined(subject, body, address)


@lru_cache(4_096)
def _joined(subject: str | None, body: str | None, address: str) -> str:
    return f"{subject or 'nan'} {body or 'nan'} {address}".lower()


_remembered = lru_cache(16_384)(str.lower)


def _folded(record: Record) -> Record:
    return {
        name: value.lower() if isinstance(value, str) and name not in _CASED else value
        for name, value in record.items()
    }
