"""TextToSQL: a query, judged equivalent to a gold one (NeMo Gym's `text_to_sql`)."""

from __future__ import annotations

import re
from typing import Any

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import Reward, Seconds
from gym_llm.errors import DataError
from gym_llm.grading.sql import Database, Question, RowsRule, compare, extract_sql
from gym_llm.judge import FAILS, JudgedEnv, labels
from gym_llm.types import Row
from gym_llm.utils.text import did_you_mean

DIALECTS = {name: name for name in ("mysql", "postgresql", "sqlite")} | {
    "postgres": "postgresql",
    "pg": "postgresql",
    "sqlite3": "sqlite",
}


_FILLED = re.compile(r"\bcreate\b.*\binsert\b", re.IGNORECASE | re.DOTALL)


class TextToSQL(JudgedEnv):
    """Write a query; 1.0 if a judge finds it equivalent to the gold one.

    Details: `extracted_sql`, `judge_passed`, `failure_reason` (`none`, `no_sql_extracted`, `judge_evaluation_failed`),
    `model_output`, `execution` (how the rows compare, if requested).

    Args:
        check_twice_swap: Whether the judge must also agree with the two queries exchanged.
        reward_if_swap_fails: The reward if it does not.
        execute_first: Whether both queries run first, if the dialect is sqlite and `sql_context` fills tables. If they
            give the same rows, at least one, the reward is 1.0 without a judge.
        sql_execution_timeout_s: CPU seconds that such a query may take.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:[[A=B]]"}

    class Task(BaseTask):
        """The gold query, its dialect, the question and the schema."""

        sql: str
        sql_dialect: str
        sql_prompt: str
        sql_context: str = ""
        uuid: str | int | None = None

        @field_validator("sql_dialect")
        @classmethod
        def _known(cls, dialect: str) -> str:
            name = dialect.strip().lower()
            if name not in DIALECTS:
                hint = did_you_mean(name, DIALECTS)
                raise ValueError(f"sql_dialect is one of {', '.join(DIALECTS)}; got {dialect!r}.{hint}")
            return DIALECTS[name]

    class Config(JudgedEnv.Config):
        """Arguments of the class."""

        check_twice_swap: bool = True
        reward_if_swap_fails: Reward = 0.0
        execute_first: bool = False
        sql_execution_timeout_s: Seconds = 5.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._parse = labels("[[A=B]]", "[[A!=B]]", conform=self.conform is not None)

    def oracle(self, task: Task) -> str:
        """Return the gold query in a fence."""
        return f"```sql\n{task.sql}\n```"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Take out the query, run it where that is asked for, and ask the judge, in both orders."""
        text = episode.text
        query = extract_sql(text, conform=self.conform is not None)
        details = {"model_output": text, "extracted_sql": query, "sql_dialect": task.sql_dialect, "judge_passed": False}
        if not query:
            return Verdict(0.0, {**details, "failure_reason": "no_sql_extracted"})
        if self.config.execute_first and _fills_tables(task):
            execution = await self._execute(task, query)
            details["execution"] = execution
            if execution == "equal":
                return Verdict(1.0, {**details, "failure_reason": "none"})
        values = {
            "sql_dialect": task.sql_dialect,
            "sql_context": task.sql_context,
            "sql_prompt": task.sql_prompt,
            "first_answer": task.sql,
            "second_answer": query,
        }
        swap = ("first_answer", "second_answer") if self.config.check_twice_swap else None
        judgement = await self.ask(values, self._parse, swap=swap, unparsable=False if self.conform else FAILS)
        reward = 1.0 if judgement.value else self.config.reward_if_swap_fails if judgement.swap_failed else 0.0
        reason = "none" if judgement.value else "judge_evaluation_failed"
        return Verdict(reward, {**details, "judge_passed": bool(judgement.value), "failure_reason": reason})

    async def _execute(self, task: Task, query: str) -> str:
        """How the two queries' rows compare on the task's tables; anything but `equal` is the judge's to decide."""
        rule = RowsRule(ordered="order by" in " ".join(task.sql.lower().split()), empty_is_equal=False)
        database = Database(script=task.sql_context)
        try:
            outcome = await compare(Question(database, query, task.sql, [rule], self.config.sql_execution_timeout_s))
        except DataError:  # SQLite cannot run what the row has
            return "gold_failed"
        return outcome.status


def _fills_tables(task: TextToSQL.Task) -> bool:
    return task.sql_dialect == "sqlite" and bool(_FILLED.search(task.sql_context))
