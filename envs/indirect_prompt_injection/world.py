"""A domain's records, and the actions of tools on them: read, find, change, add.

The row brings the data: tables (dicts from an id to a record, or lists of records) by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
Arguments: TypeAlias = dict[str, Any]

_READABLE = 1_000_000
"""Maximum number of characters that the tools of an episode return."""


@dataclass
class World:
    """The records of an episode.

    Attributes:
        data: The tables by name, a copy for the episode.
        made: Number of records that the tools have added.
        readable: Number of characters that the tools may still return.
    """

    data: dict[str, Any]
    made: int = 0
    readable: int = _READABLE

    def records(self, table: str) -> list[Record]:
        """Return the records of a table."""
        rows = self.data.get(table)
        rows = list(rows.values()) if isinstance(rows, dict) else rows if isinstance(rows, list) else []
        return [row for row in rows if isinstance(row, dict)]

    def record(self, table: str, key: str, value: Any) -> Record | None:
        """Return the record with this id."""
        rows = self.data.get(table)
        if isinstance(rows, dict):
            row = rows.get(str(value))
            return row if isinstance(row, dict) else None
        return next((row for row in self.records(table) if row.get(key) == value), None)

    def add(self, table: str, name: str, record: Record) -> None:
        """Put a record into a table; a missing table is made."""
        rows = self.data.get(table)
        if isinstance(rows, list):
            rows.append(record)
        elif isinstance(rows, dict):
            rows[name] = record
        else:
            self.data[table] = {name: record}

    def new_id(self, prefix: str) -> str:
        """Return a new id; the same calls give the same ids."""
        self.made += 1
        return f"{prefix}{self.made:06}"

    @property
    def user(self) -> str:
        """The sender of messages."""
        user = self.data.get("current_user")
        user = user if isinstance(user, dict) else {}
        return str(user.get("email") or user.get("name") or "system@company.example")


@dataclass(frozen=True)
class Action:
    """The action of a tool.

    Attributes:
        run: Carries it out, and returns a text or a JSON value.
        required: Required parameters.
        optional: Optional parameters.
    """

    run: Callable[[World, Arguments], Any]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


def read(table: str, key: str, noun: str) -> Action:
    """Make an action that returns the record of an id."""

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
    """Make an action that returns the matching records.

    Args:
        table: The table of the records.
        required: Required parameters.
        optional: Optional parameters. `min_…` and `max_…` are bounds of the field, `start_date` and `end_date` of its
            date; `threshold` is above its quantity.
        parts: The fields in which a parameter is searched, ignoring case. Other parameters match the whole field.
        only: The fields to return; all if empty.
        first: Beginning of the error without a match. If given, only the first record is returned.
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
    table: str,
    key: str,
    noun: str,
    fields: str,
    said: str | None = None,
    *,
    optional: str = "",
    onto: str = "",
    **fixed: str,
) -> Action:
    """Make an action that sets fields of a record.

    Args:
        table: The table of the record.
        key: The parameter with the record's id.
        noun: Name of the record in the error if it is missing.
        fields: Required parameters; each sets the field of its name.
        said: The answer; "" returns the record, None says that the field is updated.
        optional: Optional parameters; each sets the field of its name.
        onto: The field to which the only parameter is appended as a line.
        **fixed: Fields that are always set.
    """

    said = f"{noun} {{{key}}} {fields} updated." if said is None else said

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
    """Make an action that adds a record to a table.

    Args:
        table: The table.
        key: The field of the record's id.
        prefix: Prefix of the id.
        fields: Required parameters; each sets the field of its name.
        said: The answer, which may name the `new` id; "" returns the record.
        optional: Optional parameters; each sets the field of its name.
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
        raise ValueError(f"{str(value)[:50]!r} is not a number") from None
