"""Spider2Lite: a query whose result has the gold columns, on Spider 2's databases (NeMo Gym's `spider2_lite`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import LocalPath, Seconds
from gym_llm.grading.sql import (
    Cell,
    ColumnsRule,
    Database,
    Question,
    as_answer,
    check_databases,
    compare,
    extract_sql,
    find_database,
    near_misses,
)
from gym_llm.types import Row

_OURS = Path(__file__).parent / "data" / "databases"


class Spider2Lite(NemoCompatible):
    """Write a query; 1.0 if its result has the gold columns, among others.

    Details: `extracted_sql`, `execution_match`, `failure_reason` (`none`, `no_sql_extracted`, `execution_error`),
    `execution_status` (`equal`, `different`, `error`, `timed_out`, `too_large`, `worker_died`, or None),
    `execution_error` (what SQLite said).

    Args:
        spider2_lite_dir: The folder of the databases, `DB_ID.sqlite` each; None for the examples' own.
        sql_execution_timeout_s: Seconds of CPU time that a statement may take.
        conform: `"nemo"` compares each column by itself, and runs statements on a copy in which they may write.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DataError: If a row's database is not there.
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    metrics = {"execution_match": Metric("rate")}

    class Task(BaseTask):
        """The database's name, and the gold statement, or its result in one or several ways."""

        db_id: str
        question: str
        gold_sql: str | None = None
        gold_result: list[list[list[Cell]]] | None = None
        ignore_order: bool = True
        condition_cols: list[int] | list[list[int]] | None = None
        instance_id: str | None = None

        @model_validator(mode="after")
        def _has_gold(self) -> Spider2Lite.Task:
            if not self.gold_sql and not self.gold_result:
                raise ValueError("a row has gold_sql or gold_result")
            for rows in self.gold_result or ():
                if len(set(map(len, rows))) > 1:
                    raise ValueError("the rows of a gold_result have the same number of cells")
            if any(index < 0 for columns in _columns(self.condition_cols, 1) for index in columns):
                raise ValueError("condition_cols are columns, from 0")
            return self

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        spider2_lite_dir: LocalPath | None = None
        sql_execution_timeout_s: Seconds = 30.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self.spider2_lite_dir = self.config.spider2_lite_dir or str(_OURS)
        if tasks is not None:
            check_databases(self.tasks, self.spider2_lite_dir, "spider2_lite_dir")

    def setup(self, task: Task) -> Database:
        """Find the database."""
        return find_database(self.spider2_lite_dir, task.db_id, argument="spider2_lite_dir")

    def oracle(self, task: Task) -> str | None:
        """The gold statement; None where only its result is known."""
        return as_answer(task.gold_sql) if task.gold_sql else None

    def near_misses(self, task: Task) -> list[str] | None:
        """Answers with the gold statement that do not give its rows."""
        return near_misses(task.gold_sql) if task.gold_sql else None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Run the statement, and look for the gold columns in what it gives."""
        conform = self.conform is not None
        query = extract_sql(episode.text, conform=conform)
        if not query:
            return Verdict(0.0, _details(None, "no_sql_extracted"))
        gold = task.gold_sql or [[tuple(row) for row in rows] for rows in task.gold_result or ()]
        ways = 1 if isinstance(gold, str) else len(gold)
        rules = [
            ColumnsRule(columns, not task.ignore_order, conform) for columns in _columns(task.condition_cols, ways)
        ]
        database = episode.state._replace(copied=conform)
        outcome = await compare(Question(database, query, gold, rules[:ways], self.config.sql_execution_timeout_s))
        failure = "none" if outcome.equal else "execution_error"
        return Verdict(float(outcome.equal), _details(query, failure, outcome.status, outcome.message))


def _columns(condition: list[int] | list[list[int]] | None, ways: int) -> list[list[int]]:
    lists = [each for each in condition or () if isinstance(each, list)]
    if not lists:
        return [[each for each in condition or () if isinstance(each, int)]] * ways
    return lists + [[]] * (ways - len(lists))


def _details(query: str | None, failure: str, status: str | None = None, message: str | None = None) -> dict[str, Any]:
    return {
        "extracted_sql": query,
        "execution_match": failure == "none",
        "failure_reason": failure,
        "execution_status": status,
        "execution_error": message,
    }
