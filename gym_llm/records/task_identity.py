"""The identity of a task in records: a key that stays, and a hash of its content."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import orjson

from gym_llm.types import Row
from gym_llm.utils.json_codec import dumps

ID_FIELDS = ("task_id", "id", "uuid", "question_id", "problem_id", "instance_id", "example_id", "_id")
"""Fields of rows that name a task, the first one first."""

_LONGEST = 200


class TaskIdentity(NamedTuple):
    """The name of a task that does not depend on its place in a file."""

    key: str
    """The row's own id (`ID_FIELDS`), or the first 16 characters of the hash. It stays if a word of the row changes."""
    sha256: str
    """The SHA-256 of the row as JSON with sorted keys, its prompt filled in."""


def task_identity(row: Row, key: str | None = None) -> TaskIdentity:
    """Return the identity of a row.

    Args:
        row: The row as it is played.
        key: The id that its source gives it, for a row without one of its own.

    >>> task_identity({"id": 7, "question": "1 + 1"}).key, task_identity({"question": "1 + 1"}).key
    ('7', '634b60e38f69a2f2')
    """
    sha256 = hashlib.sha256(_canonical(row)).hexdigest()
    own = next((row[name] for name in ID_FIELDS if _is_id(row.get(name))), None)
    return TaskIdentity(key or sha256[:16] if own is None else str(own), sha256)


def _canonical(row: Row) -> bytes:
    try:
        return orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    except Exception:  # an object of a program's may raise anything
        return dumps(row)


def _is_id(value: Any) -> bool:
    return (isinstance(value, str) and 0 < len(value) <= _LONGEST) or (type(value) is int and abs(value) < 2**63)
