"""A task as it comes over the protocol: a row, as NeMo Gym's agents write it, or the parts of one."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from gym_llm.core.tasks import PreparedTask, RowKind
from gym_llm.errors import DataError
from gym_llm.serve.episode_session import BadRequest
from gym_llm.types import Episode, Item, Row
from gym_llm.utils.json_codec import dumps

PARAMS = "responses_create_params"
_KEPT = 512
_LARGEST = 1 << 16


@dataclass(slots=True)
class Seeded:
    """The seed of a session.

    Attributes:
        row: The row.
        opening: The user's first items after the row's own input.
        episode: The episode that began. Another protocol may begin another one in the session.
    """

    row: Row
    opening: list[Item]
    episode: Episode | None


def read_row(body: dict[str, Any]) -> Row:
    """Return the row of a request body.

    Agents add the `response`, their own fields that begin with `_` (`_ng_rollout_index`), and null for parameters that
    the row lacks. The row is the body without them.
    """
    row = {name: value for name, value in body.items() if name[:1] != "_" and name != "response"}
    params = row.get(PARAMS)
    if isinstance(params, dict) and None in params.values():
        row[PARAMS] = {name: value for name, value in params.items() if value is not None}
    return row


class Rows:
    """Makes rows ready; those of before need not be checked again: each task is played several times.

    Args:
        kind: What they have to be.
    """

    def __init__(self, kind: RowKind) -> None:
        self._kind = kind
        self._prepared: OrderedDict[bytes, PreparedTask] = OrderedDict()

    def prepare(self, row: Row) -> PreparedTask:
        """Prepare a row.

        Raises:
            BadRequest: If the row is invalid.
        """
        line = dumps(row)
        key = blake2b(line, digest_size=16).digest()
        prepared = self._prepared.get(key)
        if prepared is None:
            try:
                prepared = self._kind.prepare(row)
            except DataError as error:
                raise BadRequest(f"The row is invalid for this environment: {error}") from None
            if len(line) <= _LARGEST:
                self._prepared[key] = prepared
                if len(self._prepared) > _KEPT:
                    self._prepared.popitem(last=False)
        return prepared


def changed_field(seeded: Row, row: Row) -> str | None:
    """A field of the task that is another than the one that the session was seeded with; None if all are the same.

    The request is not looked at.
    """
    for name, value in seeded.items():
        if name != PARAMS and (name not in row or row[name] != value):
            return name
    return None
