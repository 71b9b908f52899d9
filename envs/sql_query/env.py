"""SQLQuery: a question about a small database that comes with it, answered with a query."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.core.env_config import Seconds
from gym_llm.envs.sql_query.generated import make_question
from gym_llm.grading.sql import (
    Cell,
    Database,
    Question,
    RowsRule,
    as_answer,
    compare,
    extract_sql,
    near_misses,
)
from gym_llm.types import Row

ASK = "Answer with one SQLite query in a ```sql block."


class SQLQuery(VerifierEnv):
    """Write a SQLite query; 1.0 if it gives the rows of the gold one on the tables that the task has.

    Details: `extracted_sql`, `execution_match`, `execution_status` (`equal`, `different`, `error`, `timed_out`,
    `too_large`, `worker_died`, or None without a query), `execution_error` (what SQLite said).

    Args:
        deadline: Seconds of CPU time that a statement may take.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    metrics = {"execution_match": Metric("rate")}

    class Task(BaseTask):
        """The tables, and the gold query, or the rows that it gives."""

        statements: str = Field(alias="schema")
        question: str
        gold_sql: str | None = None
        expected_rows: list[list[Cell]] | None = None
        ordered: bool = False

        @model_validator(mode="after")
        def _has_gold(self) -> SQLQuery.Task:
            if (not self.gold_sql) == (self.expected_rows is None):
                raise ValueError("a row has gold_sql or expected_rows, and not both")
            if len(set(map(len, self.expected_rows or ()))) > 1:
                raise ValueError("expected_rows have the same number of cells")
            return self

    class Config(VerifierEnv.Config):
        """Arguments of the class."""

        deadline: Seconds = 5.0

    config: Config

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw tables, what is in them, and a question."""
        made = make_question(rng)
        prompt = f"{ASK}\n\n{made.schema}\n\nQuestion: {made.question}"
        return self.row(prompt, **made._asdict())

    def oracle(self, task: Task) -> str | None:
        """The gold query; None where only its rows are known."""
        return as_answer(task.gold_sql) if task.gold_sql else None

    def near_misses(self, task: Task) -> list[str] | None:
        """Answers with the gold statement that do not give its rows."""
        return near_misses(task.gold_sql) if task.gold_sql else None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Run the query on the task's tables, and compare the rows."""
        query = extract_sql(episode.text)
        if not query:
            return Verdict(0.0, _details(None))
        gold = task.gold_sql or [[tuple(row) for row in task.expected_rows or ()]]
        question = Question(
            Database(script=task.statements), query, gold, [RowsRule(task.ordered)], self.config.deadline
        )
        outcome = await compare(question)
        return Verdict(float(outcome.equal), _details(query, outcome.status, outcome.message))


def _details(query: str | None, status: str | None = None, message: str | None = None) -> dict[str, Any]:
    return {
        "extracted_sql": query,
        "execution_match": status == "equal",
        "execution_status": status,
        "execution_error": message,
    }
