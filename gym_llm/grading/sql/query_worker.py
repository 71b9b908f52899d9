"""What a worker process does with a `Question`: run the gold statement (remembered), then the model's, and compare.

Before each step it leaves a note, so that whoever finds the process ended by its deadline knows whose step it was.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import Any

from gym_llm.concurrency.worker_process import leave_note
from gym_llm.grading.sql.connections import database_key
from gym_llm.grading.sql.databases import Database
from gym_llm.grading.sql.execution import run
from gym_llm.grading.sql.results import GOLD, MODEL, Failure, GoldFailed, Outcome, Question, Rows
from gym_llm.records.failures import reason

_REMEMBERED = 64
_MOST_REMEMBERED = 20_000  # cells of a result
_gold: OrderedDict[Any, Rows] = OrderedDict()


def grade(question: Question) -> Outcome | GoldFailed:
    """Compare what the model's statement gives with what the gold one does."""
    leave_note(GOLD)
    golds = question.gold
    if isinstance(golds, str):
        rows = _gold_rows(question.database, golds, question.seconds)
        if isinstance(rows, GoldFailed):
            return rows
        golds = [rows]
    if question.query is None:
        return Outcome("equal")
    leave_note(MODEL)
    try:
        result = run(question.database, question.query, question.seconds)
    except (sqlite3.Error, OSError, MemoryError, ValueError) as error:
        return GoldFailed(f"The database cannot be opened: {reason(error)}")
    if isinstance(result, Failure):
        return Outcome(result.name, result.message)
    try:
        equal = any(rule.matches(gold, result) for gold, rule in zip(golds, question.rules, strict=True))
    except MemoryError:
        return Outcome("too_large", "Its result cannot be compared in the memory that there is.")
    return Outcome("equal" if equal else "different")


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
