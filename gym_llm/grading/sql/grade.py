"""Asking a worker process whether a model's statement gives the gold rows."""

from __future__ import annotations

import signal

from gym_llm.concurrency.processes import shared_pool
from gym_llm.errors import DataError, DeadlinePassed, WorkerDied
from gym_llm.grading.sql.question import GOLD, GoldFailed, QueryResult, Question

_WORKER = "gym_llm.grading.sql.query_worker:grade"
_COMPARING_SECONDS = 5.0


async def compare(question: Question) -> QueryResult:
    """Run both statements in a worker process, and compare their rows.

    SQLite stops most statements that take too long, and the worker lives on. A statement that hangs in one function,
    such as `LIKE` with a hundred wildcards, blocks the worker until the kernel ends it. Each of the three steps (a
    script, the gold statement, the model's) has its own seconds, and the comparison has five more.

    Raises:
        DataError: If the gold statement fails, or the database cannot be opened: the row is at fault.
        WorkerDied: If the gold statement ends the worker, or something outside does.
    """
    try:
        return _read(await _ask(question), question)
    except DeadlinePassed as error:
        if error.note == GOLD:
            raise _fault(question, "The gold statement, or the database's script, takes too long.") from None
        return QueryResult("timed_out", f"It takes longer than {question.seconds:g} s.")
    except WorkerDied as error:
        if error.exit_code == -signal.SIGKILL:  # from outside: SQLite's memory has a limit of its own
            raise
        died = QueryResult("worker_died", str(error))
    if isinstance(question.gold, str):  # which of the two statements was it?
        _read(await _ask(question._replace(query=None)), question)
    return died


async def _ask(question: Question) -> QueryResult | GoldFailed:
    pool = shared_pool(_WORKER, deadline=3 * question.seconds + _COMPARING_SECONDS)
    answer: QueryResult | GoldFailed = await pool.call(question)
    return answer


def _read(answer: QueryResult | GoldFailed, question: Question) -> QueryResult:
    if isinstance(answer, GoldFailed):
        raise _fault(question, answer.message)
    return answer


def _fault(question: Question, message: str) -> DataError:
    where = question.database.path or "the row's script"
    statement = f"; it is {question.gold[:500]!r}" if isinstance(question.gold, str) else ""
    return DataError(f"A task of {where} cannot be scored. {message}{statement}")
