"""BirdSQL: a query that gives what the gold one does, on BIRD's databases (NeMo Gym's `bird_sql`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.errors import DataError
from gym_llm.grading.sql import (
    Database,
    Question,
    SetRule,
    as_answer,
    check_databases,
    check_seconds,
    compare,
    find_database,
    last_sql_block,
    near_misses,
)
from gym_llm.types import Row

_OURS = Path(__file__).parent / "data" / "databases"
_NO_ANSWER = "SELECT 1"


class BirdSQL(NemoCompatible):
    """Write a query in a fenced SQL block; 1.0 if it gives the same set of rows as the gold one.

    Details: `extracted_sql`, `had_codeblock`, `execution_match`, `failure_reason` (`none`, `no_sql_extracted`,
    `execution_error`), `execution_status` (`equal`, `different`, `error`, `timed_out`, `too_large`, `worker_died`, or
    None), `execution_error` (what SQLite said).

    Args:
        bird_sql_dir: The folder of the databases, `DB_ID/DB_ID.sqlite` each; None for the examples' own.
        sql_execution_timeout_s: Seconds of CPU time that a statement may take.
        conform: `"nemo"` takes the query out as NeMo Gym does, and pays 0.0 where the gold statement fails.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DataError: If a row's database is not there.
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    metrics = {"execution_match": Metric("rate")}

    class Task(BaseTask):
        """The question, the gold statement, and the database's name."""

        question: str
        gt_sql: str
        db_id: str
        difficulty: str | None = None
        id: str | int | None = None

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        bird_sql_dir: str | None = None,
        sql_execution_timeout_s: float = 30.0,
        **kwargs: Any,
    ) -> None:
        check_seconds("sql_execution_timeout_s", sql_execution_timeout_s)
        super().__init__(tasks, **kwargs)
        self.bird_sql_dir = bird_sql_dir or str(_OURS)
        self.sql_execution_timeout_s = sql_execution_timeout_s
        if tasks is not None:
            check_databases(self.tasks, self.bird_sql_dir, "bird_sql_dir")

    def setup(self, task: Task) -> Database:
        """Find the database."""
        return find_database(self.bird_sql_dir, task.db_id, argument="bird_sql_dir")

    def oracle(self, task: Task) -> str:
        """The gold statement."""
        return as_answer(task.gt_sql)

    def near_misses(self, task: Task) -> list[str]:
        """Answers with the gold statement that do not give its rows."""
        return near_misses(task.gt_sql)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Run both statements, and compare what they give."""
        query = last_sql_block(episode.text, conform=self.conform is not None)
        details = {"extracted_sql": query, "had_codeblock": query is not None, "execution_match": False}
        if query is None:
            if self.conform is None:
                return Verdict(0.0, _result(details, "no_sql_extracted"))
            details["extracted_sql"] = query = _NO_ANSWER
        question = Question(episode.state, query, task.gt_sql, [SetRule()], self.sql_execution_timeout_s)
        try:
            outcome = await compare(question)
        except DataError as error:
            if self.conform is None:
                raise
            return Verdict(0.0, _result(details, "gold_execution_error", None, str(error)))
        details["execution_match"] = outcome.equal
        failure = "none" if outcome.equal else "execution_error" if details["had_codeblock"] else "no_sql_extracted"
        return Verdict(float(outcome.equal), _result(details, failure, outcome.status, outcome.message))


def _result(
    details: dict[str, Any], failure: str, status: str | None = None, message: str | None = None
) -> dict[str, Any]:
    return {**details, "failure_reason": failure, "execution_status": status, "execution_error": message}
