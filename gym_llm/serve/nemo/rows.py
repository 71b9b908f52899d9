"""A task as it comes over the wire: a row, as NeMo Gym's agents write it, or the parts of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gym_llm.errors import DataError
from gym_llm.serve.episode import BadRequest
from gym_llm.tasks import PreparedTask, RowKind
from gym_llm.types import Item, Row

PARAMS = "responses_create_params"


@dataclass(slots=True)
class Seeded:
    """What a session was seeded with.

    Attributes:
        row: The row, read.
        opening: What the user says first, after the row's own input.
    """

    row: Row
    opening: list[Item]


def read_row(body: dict[str, Any]) -> Row:
    """The row of a body: agents add the `response`, and write null for each parameter that the row does not have."""
    row = {name: value for name, value in body.items() if name != "response"}
    params = row.get(PARAMS)
    if isinstance(params, dict) and None in params.values():
        row[PARAMS] = {name: value for name, value in params.items() if value is not None}
    return row


def prepare(kind: RowKind, row: Row) -> PreparedTask:
    """Make a row ready.

    Raises:
        BadRequest: If it is none.
    """
    try:
        return kind.prepare(row)
    except DataError as error:
        raise BadRequest(f"This is no row of this environment: {error}") from None


def changed_field(seeded: Row, row: Row) -> str | None:
    """A field of the task that is another than the one that the session was seeded with; None if all are the same.

    The request is not looked at, nor what begins with `_`, where agents keep what is theirs.
    """
    for name, value in seeded.items():
        if name != PARAMS and not name.startswith("_") and (name not in row or row[name] != value):
            return name
    return None
