"""Running one statement, bounded in time and in what it gives."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from gym_llm.grading.sql.connections import close_others, connect, connect_copy, limited
from gym_llm.grading.sql.databases import Database
from gym_llm.grading.sql.results import Failure, Rows

MOST_ROWS = 1_000_000
MOST_BYTES = 128 << 20
"""Of a result, as Python holds it, roughly."""
_ROW_BYTES, _CELL_BYTES = 56, 40
_MOST_MESSAGE = 500


def run(database: Database, statement: str, seconds: float) -> Rows | Failure:
    """The rows of a statement; of too many, none.

    Raises:
        sqlite3.Error, OSError, MemoryError, ValueError: If the database cannot be opened (`connections.connect`).
    """
    if database.copied:
        with closing(connect_copy(database, seconds)) as connection:
            return _run(connection, statement, seconds, no_query=[])
    result = _run(connect(database, seconds), statement, seconds)
    if result == _NO_MEMORY and close_others(database):  # what it needs, without what others have left
        result = _run(connect(database, seconds), statement, seconds)
    return result


_NO_MEMORY = Failure("too_large", "It needs too much memory.")
_TOO_LARGE = Failure("too_large", f"Its result has more than {MOST_ROWS:,} rows or {MOST_BYTES >> 20} MiB.")
_NO_QUERY = Failure("error", "It is no query.")


def _run(
    connection: sqlite3.Connection, statement: str, seconds: float, *, no_query: Rows | Failure = _NO_QUERY
) -> Rows | Failure:
    with limited(connection, seconds) as clock:
        try:
            with closing(connection.execute(statement)) as cursor:
                return no_query if cursor.description is None else _fetch(cursor)
        except MemoryError:
            return _NO_MEMORY
        except sqlite3.DataError as error:  # a text or blob, or the statement
            return Failure("too_large", _message(error))
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: a null or half a character
            if clock.is_over:
                return Failure("timed_out", f"It takes longer than {seconds:g} s.")
            return Failure("error", _message(error))


def _fetch(cursor: sqlite3.Cursor) -> Rows | Failure:
    rows: Rows = []
    size = 0
    row_bytes = _ROW_BYTES + _CELL_BYTES * len(cursor.description)
    for row in cursor:
        size += row_bytes + sum([len(cell) for cell in row if cell.__class__ is str or cell.__class__ is bytes])
        if size > MOST_BYTES or len(rows) == MOST_ROWS:
            return _TOO_LARGE
        rows.append(row)
    return rows


def _message(error: Any) -> str:
    return str(error)[:_MOST_MESSAGE]
