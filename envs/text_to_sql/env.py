"""TextToSQL: a query, judged equivalent to a gold one (NeMo Gym's `text_to_sql`)."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.did_you_mean import did_you_mean
from gym_llm.envs.text_to_sql.extraction import extract_sql
from gym_llm.judge import FAILS, JudgedEnv, labels
from gym_llm.types import Row

DIALECTS = {name: name for name in ("mysql", "postgresql", "sqlite")} | {
    "postgres": "postgresql",
    "pg": "postgresql",
    "sqlite3": "sqlite",
}


class TextToSQL(JudgedEnv):
    """Write a query; 1.0 if a judge finds it equivalent to the gold one.

    Details: `extracted_sql`, `judge_passed`, `failure_reason` (`none`, `no_sql_extracted`, `judge_evaluation_failed`),
    `model_output`.

    Args:
        check_twice_swap: Whether the judge has to agree with the two queries exchanged.
        reward_if_swap_fails: The reward if it does not.
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

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        check_twice_swap: bool = True,
        reward_if_swap_fails: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks, **kwargs)
        self.check_twice_swap = check_twice_swap
        self.reward_if_swap_fails = reward_if_swap_fails
        self._parse = labels("[[A=B]]", "[[A!=B]]", conform=self.conform is not None)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Take out the query and ask the judge, in both orders."""
        text = episode.text
        query = extract_sql(text, conform=self.conform is not None)
        details = {"model_output": text, "extracted_sql": query, "sql_dialect": task.sql_dialect, "judge_passed": False}
        if not query:
            return Verdict(0.0, {**details, "failure_reason": "no_sql_extracted"})
        values = {
            "sql_dialect": task.sql_dialect,
            "sql_context": task.sql_context,
            "sql_prompt": task.sql_prompt,
            "first_answer": task.sql,
            "second_answer": query,
        }
        swap = ("first_answer", "second_answer") if self.check_twice_swap else None
        judgement = await self.ask(values, self._parse, swap=swap, unparsable=False if self.conform else FAILS)
        reward = 1.0 if judgement.value else self.reward_if_swap_fails if judgement.swap_failed else 0.0
        reason = "none" if judgement.value else "judge_evaluation_failed"
        return Verdict(reward, {**details, "judge_passed": bool(judgement.value), "failure_reason": reason})
