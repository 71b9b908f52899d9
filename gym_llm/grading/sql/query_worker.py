"""The worker process that grades a `Question`: it runs the gold statement (cached), then the other one, and compares.

Each statement is bounded in time and in the size of its result. Before each step the worker leaves a note, so that the
caller knows which statement was running if a deadline ends the process.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from contextlib import closing
from typing import Any

from gym_llm.concurrency.worker_process import leave_note
from gym_llm.grading.sql.databases import close_others, connect, connect_copy, database_key, limited
from gym_llm.grading.sql.question import GOLD, MODEL, Database, Failure, GoldFailed, QueryResult, Question, Rows
from gym_llm.records.failures import reason

MOST_ROWS = 1_000_000
MOST_BYTES = 128 << 20
"""Bytes of a result as Python holds it, roughly."""
_ROW_BYTES, _CELL_BYTES = 56, 40
_MOST_MESSAGE = 500


def run(database: Database, statement: str, seconds: float) -> Rows | Failure:
    """Run a statement and return its rows; too many are a failure.

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


_REMEMBERED = 64
_MOST_REMEMBERED = 20_000  # cells of a result
_gold: OrderedDict[Any, Rows] = OrderedDict()


def grade(question: Question) -> QueryResult | GoldFailed:
    """Compare the result of the model's statement with that of the gold one."""
    leave_note(GOLD)
    golds = question.gold
    if isinstance(golds, str):
        rows = _gold_rows(question.database, golds, question.seconds)
        if isinstance(rows, GoldFailed):
            return rows
        golds = [rows]
    if question.query is None:
        return QueryResult("equal")
    leave_note(MODEL)
    try:
        result = run(question.database, question.query, question.seconds)
    except (sqlite3.Error, OSError, MemoryError, ValueError) as error:
        return GoldFailed(f"The database cannot be opened: {reason(error)}")
    if isinstance(result, Failure):
        return QueryResult(result.name, result.message)
    try:
        equal = any(rule.matches(gold, result) for gold, rule in zip(golds, question.rules, strict=True))
    except MemoryError:
        return QueryResult("too_large", "Its result cannot be compared in the memory that there is.")
    return QueryResult("equal" if equal else "different")


def _gold_rows(database: Database, statement: str, seconds: float) -> Rows | GoldFailed:
    try:
        key = database_key(database), database.copied, statement
        if key in _gold:
            _gold.move_to_end(key)
            return _gold[key]
        rows = run(database, statement, seconds)
    except (sqlite3.Error, OSError, MemoryError, ValueError) as error:
        return GoldFailed(f"The database cannot be opened: {reason(error)}")
    if isinstance(rows, Failure):
        return GoldFailed(f"The gold statement fails ({rows.name}): {rows.message}")
    if len(rows) * len(rows[0] if rows else ()) <= _MOST_REMEMBERED:
        _gold[key] = rows
        if len(_gold) > _REMEMBERED:
            _gold.popitem(last=False)
    return rows
