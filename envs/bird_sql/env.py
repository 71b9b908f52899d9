"""BirdSQL: a query that returns the gold query's rows, on BIRD's databases (NeMo Gym's `bird_sql`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import LocalPath, Seconds
from gym_llm.errors import DataError
from gym_llm.grading.sql import (
    Database,
    Question,
    SetRule,
    as_answer,
    check_databases,
    compare,
    extract_sql,
    find_database,
    last_sql_block,
    near_misses,
)
from gym_llm.types import Row

_OURS = Path(__file__).parent / "data" / "databases"
_FAILURES = {"equal": "none", "different": "result_mismatch", "timed_out": "execution_timeout"}


class BirdSQL(NemoCompatible):
    """Write a query, best in a fenced SQL block; 1.0 if it returns the same set of rows as the gold query.

    Details: `extracted_sql`, `had_codeblock`, `execution_match`, `failure_reason` (`none`, `no_sql_extracted`,
    `result_mismatch`, `execution_error`, `execution_timeout`), `execution_status` (`equal`, `different`, `error`,
    `timed_out`, `too_large`, `worker_died`, or None), `execution_error` (SQLite's message).

    Args:
        bird_sql_dir: The folder of the databases, `DB_ID/DB_ID.sqlite` each; None for those of the examples.
        sql_execution_timeout_s: Seconds of CPU time for each statement.
        conform: `"nemo"` extracts the query as NeMo Gym does, and pays 0.0 if the gold query fails.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DataError: If the database of a row is missing.
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    metrics = {"execution_match": Metric("rate")}

    class Task(BaseTask):
        """The question, the gold query and the name of the database."""

        question: str
        gt_sql: str
        db_id: str
        difficulty: str | None = None
        id: str | int | None = None

    class Config(NemoCompatible.Config):
        """The databases, and the time for a statement."""

        bird_sql_dir: LocalPath | None = None
        sql_execution_timeout_s: Seconds = 30.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self.bird_sql_dir = self.config.bird_sql_dir or str(_OURS)
        if tasks is not None:
            check_databases(self.tasks, self.bird_sql_dir, "bird_sql_dir")

    def setup(self, task: Task) -> Database:
        """Find the database."""
        return find_database(self.bird_sql_dir, task.db_id, argument="bird_sql_dir")

    def oracle(self, task: Task) -> str:
        """Return the gold query."""
        return as_answer(task.gt_sql)

    def near_misses(self, task: Task) -> list[str]:
        """Return answers that contain the gold query and do not return its rows."""
        return near_misses(task.gt_sql)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Run both queries and compare their rows."""
        query = block = last_sql_block(episode.text, conform=self.conform is not None)
        if block is None and self.conform is None:
            query = extract_sql(episode.text)
        details = {"extracted_sql": query, "had_codeblock": block is not None, "execution_match": False}
        if query is None:
            return Verdict(0.0, _result(details, "no_sql_extracted"))
        question = Question(episode.state, query, task.gt_sql, [SetRule()], self.config.sql_execution_timeout_s)
        try:
            outcome = await compare(question)
        except DataError as error:
            if self.conform is None:
                raise
            return Verdict(0.0, _result(details, "gold_execution_error", None, str(error)))
        details["execution_match"] = outcome.equal
        failure = _FAILURES.get(outcome.status, "execution_error")
        return Verdict(float(outcome.equal), _result(details, failure, outcome.status, outcome.message))


def _result(
    details: dict[str, Any], failure: str, status: str | None = None, message: str | None = None
) -> dict[str, Any]:
    return {**details, "failure_reason": failure, "execution_status": status, "execution_error": message}
