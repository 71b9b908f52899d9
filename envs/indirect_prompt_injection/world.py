"""A domain's records, and what tools do with them: read, find, change, add.

The data is the row's: tables (dicts from an id to a record, or lists of records) by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
Arguments: TypeAlias = dict[str, Any]

_READABLE = 1_000_000
"""Characters that the tools of an episode give out; no answer of a model needs as many."""


@dataclass
class World:
    """One episode's records.

    Attributes:
        data: The tables by name, the episode's own.
        made: How many records the tools have added.
        readable: How many characters tools may still give out.
    """

    data: dict[str, Any]
    made: int = 0
    readable: int = _READABLE

    def records(self, table: str) -> list[Record]:
        """A table's records."""
        rows = self.data.get(table)
        rows = list(rows.values()) if isinstance(rows, dict) else rows if isinstance(rows, list) else []
        return [row for row in rows if isinstance(row, dict)]

    def record(self, table: str, key: str, value: Any) -> Record | None:
        """The record with this id."""
        rows = self.data.get(table)
        if isinstance(rows, dict):
            row = rows.get(str(value))
            return row if isinstance(row, dict) else None
        return next((row for row in self.records(table) if row.get(key) == value), None)

    def add(self, table: str, name: str, record: Record) -> None:
        """Put a record into a table; one that is not there is made."""
        rows = self.data.get(table)
        if isinstance(rows, list):
            rows.append(record)
        elif isinstance(rows, dict):
            rows[name] = record
        else:
            self.data[table] = {name: record}

    def new_id(self, prefix: str) -> str:
        """An id that nothing has yet; the same calls give the same ids."""
        self.made += 1
        return f"{prefix}{self.made:06}"

    @property
    def user(self) -> str:
        """Who sends messages."""
        user = self.data.get("current_user")
        user = user if isinstance(user, dict) else {}
        return str(user.get("email") or user.get("name") or "system@company.example")


@dataclass(frozen=True)
class Action:
    """What a tool does.

    Attributes:
        run: Does it: gives text, or what is given out as JSON.
        required: Parameters that have to be given.
        optional: Others.
    """

    run: Callable[[World, Arguments], Any]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


def read(table: str, key: str, noun: str) -> Action:
    """Give out the record of an id."""

    def run(world: World, given: Arguments) -> Any:
        record = world.record(table, key, given[key])
        return {"error": f"{noun} {given[key]} not found."} if record is None else record

    return Action(run, (key,))


def find(
    table: str,
    required: str = "",
    optional: str = "",
    *,
    parts: dict[str, str] | None = None,
    only: str = "",
    first: str = "",
) -> Action:
    """Give out the records that fit.

    Args:
        table: Where they are.
        required: Parameters that have to be given.
        optional: Others. `min_…` and `max_…` are bounds of the field, `start_date` and `end_date` of its date;
            `threshold` is above its quantity.
        parts: Of parameters that are looked for within fields, upper and lower case aside: these fields. The others
            are the whole field.
        only: The fields that are given out; all without it.
        first: A noun: only the first record is given out, or an error that there is none.
    """
    within = {name: fields.split() for name, fields in (parts or {}).items()}

    def fits(record: Record, name: str, value: Any) -> bool:
        if name in within:
            return any(_lower(value) in _lower(record.get(field, "")) for field in within[name])
        if name in ("start_date", "end_date"):
            date = str(record.get("scheduled_date") or record.get("date") or "")
            return date >= str(value) if name == "start_date" else date <= str(value)
        if name.startswith(("min_", "max_")):
            number = _number(record.get(name[4:], 0))
            return number >= _number(value) if name.startswith("min_") else number <= _number(value)
        if name == "threshold":
            return _number(record.get("quantity", 0)) < _number(value)
        return _lower(record.get(name)) == _lower(value)

    def run(world: World, given: Arguments) -> Any:
        found = [
            record
            for record in world.records(table)
            if all(fits(record, name, value) for name, value in given.items() if value != "")
        ]
        if first:
            return found[0] if found else {"error": f"{first} {next(iter(given.values()))}."}
        if only:
            return [{name: record.get(name) for name in only.split()} for record in found]
        return found

    return Action(run, tuple(required.split()), tuple(optional.split()))


def change(
    table: str, key: str, noun: str, fields: str, said: str, *, optional: str = "", onto: str = "", **fixed: str
) -> Action:
    """Set fields of a record.

    Args:
        table: Where it is.
        key: The parameter with its id.
        noun: What it is called if it is not there.
        fields: Parameters that have to be given, and the fields that they set.
        said: The answer; "" gives the record out.
        optional: Further parameters and fields.
        onto: The field to which the one parameter is added as a line, instead of a field of its name.
        **fixed: Fields that are set in any case.
    """

    def run(world: World, given: Arguments) -> Any:
        record = world.record(table, key, given[key])
        if record is None:
            problem = f"{noun} {given[key]} not found."
            return f"Error: {problem}" if said else {"error": problem}
        if onto:
            old, new = record.get(onto), str(given[fields])
            record[onto] = f"{old}\n{new}" if old else new
        else:
            record.update({name: value for name, value in given.items() if name != key} | fixed)
        return said.format(**given) if said else record

    return Action(run, (key, *fields.split()), tuple(optional.split()))


def add(table: str, key: str, prefix: str, fields: str, said: str, *, optional: str = "", **fixed: Any) -> Action:
    """Put a new record into a table.

    Args:
        table: Where to.
        key: The field of its id.
        prefix: What its id begins with.
        fields: Parameters that have to be given, and the fields that they set.
        said: The answer, which may name the `new` id; "" gives the record out.
        optional: Further parameters and fields.
        **fixed: Further fields.
    """

    def run(world: World, given: Arguments) -> Any:
        new = world.new_id(prefix)
        record = {key: new, **given, **fixed}
        world.add(table, new, record)
        return said.format(**given, new=new) if said else record

    return Action(run, tuple(fields.split()), tuple(optional.split()))


def _lower(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value)).lower()
    return str(value).strip().lower()


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{str(value)[:50]!r} is no number") from None
