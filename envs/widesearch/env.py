"""WideSearch: tables of facts from the web, compared cell by cell (NeMo Gym's `widesearch`)."""

from __future__ import annotations

import json
from collections import deque
from importlib.util import find_spec
from typing import Any, Literal

from gymnasium.error import DependencyNotInstalled
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.env_config import Seconds
from gym_llm.envs.widesearch.tables import (
    METRICS,
    Table,
    column_name,
    first_number,
    first_of_each,
    near_day,
    normal_text,
    scores,
    table_in,
)
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.grading.extraction import last_fence
from gym_llm.grading.quotations import meant_words
from gym_llm.judge import FAILS, JudgedEnv, json_objects
from gym_llm.utils.extras import install


class Pipeline(BaseModel):
    """A column's preparation and metrics."""

    model_config = ConfigDict(frozen=True)

    preprocess: list[Literal["norm_str", "extract_number", "norm_date"]] = []
    metric: list[Literal["exact_match", "url_match", "number_near", "date_near", "llm_judge"]] = []
    criterion: Any = None

    @property
    def needs_dates(self) -> bool:
        """Whether dates have to be read."""
        return "norm_date" in self.preprocess or "date_near" in self.metric


class Evaluation(BaseModel):
    """The columns that a table must have, those that name a row, and how each is compared."""

    model_config = ConfigDict(frozen=True)

    required: list[str] = Field(min_length=1)
    unique_columns: list[str] = Field(min_length=1)
    eval_pipeline: dict[str, Pipeline]

    @model_validator(mode="after")
    def _is_whole(self) -> Evaluation:
        columns = set(self.required)
        if unknown := (set(self.unique_columns) | self.eval_pipeline.keys()) - columns:
            raise ValueError(f"required must have the columns {sorted(unknown)}")
        if missing := columns - set(self.unique_columns) - self.eval_pipeline.keys():
            raise ValueError(f"eval_pipeline must have the columns {sorted(missing)}")
        if any(pipeline.needs_dates for pipeline in self.eval_pipeline.values()) and find_spec("dateparser") is None:
            raise DependencyNotInstalled(
                f"WideSearch reads dates with dateparser, which is missing: {install('dates')}"
            )
        return self


class WideSearch(JudgedEnv):
    """Fill a table with facts; 1.0 if every cell is right, and no row is missing or too much.

    Details: `precision_by_row`, `recall_by_row`, `f1_by_row`, the same `_by_item`, `evaluation_message`.

    Args:
        deadline: Seconds of CPU time for the dates of a table, in a worker process; past them they are texts.
        **kwargs: As for every `JudgedEnv`.

    Raises:
        DependencyNotInstalled: If a row has dates, and dateparser is not installed.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": 'constant:{"idx_0": 1, "idx_1": 1, "idx_2": 1}'}
    judge_params = {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 32768}
    metrics = {f"{name}_by_{part}": Metric() for part in ("row", "item") for name in ("precision", "recall", "f1")}

    class Task(BaseTask):
        """The expected table, and how tables are compared with it."""

        evaluation: Evaluation
        gold_answer: list[dict[str, Any]] = Field(min_length=1)
        instance_id: str | None = None
        query: str | None = None
        language: str | None = None

        @model_validator(mode="after")
        def _has_columns(self) -> WideSearch.Task:
            if missing := [name for name in self.evaluation.required if not all(name in row for row in self.gold)]:
                raise ValueError(f"gold_answer must have the columns {missing}")
            return self

        @property
        def gold(self) -> Table:
            """The expected table as texts."""
            return [{column_name(name): str(cell) for name, cell in row.items()} for row in self.gold_answer]

    class Config(JudgedEnv.Config):
        """The time limit of dates."""

        deadline: Seconds = 20.0

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected table."""
        return _markdown(task.gold, task.evaluation.required)

    def near_misses(self, task: Task) -> list[str]:
        """Return the table without its last row, and with one more."""
        gold, columns = task.gold, task.evaluation.required
        return [_markdown(rows, columns) for rows in (gold[:-1], [*gold, dict.fromkeys(columns, "0")]) if rows]

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Read the table, align its columns and rows, and compare the cells."""
        evaluation, text = task.evaluation, episode.messages_text
        table = table_in(text if self.conform else meant_words(text, episode), conform=self.conform is not None)
        if not table:
            return _verdict("response contains no Markdown table")
        table = await self._with_columns(table, evaluation.required)
        if table[0].keys() != set(evaluation.required):
            return _verdict(f"required columns {evaluation.required} do not match {sorted(table[0])}"[:1000])
        gold = [{name: row[name] for name in evaluation.required} for row in task.gold]
        for column in evaluation.unique_columns:
            pipeline = evaluation.eval_pipeline.get(column, Pipeline())
            if {"exact_match", "llm_judge"} & set(pipeline.metric):
                mapping = await self._aligned([row[column] for row in table], [row[column] for row in gold])
                table = [{**row, column: mapping.get(row[column], row[column])} for row in table]
        for column, pipeline in evaluation.eval_pipeline.items():
            for step in pipeline.preprocess:
                await self._prepare([*table, *gold], column, step)
        rows, expected = (first_of_each(each, evaluation.unique_columns) for each in (table, gold))
        pairs = [(rows[key], expected[key]) for key in expected if key in rows]
        cells = [dict.fromkeys(evaluation.unique_columns, True) for _ in pairs]
        for column in evaluation.required:
            if column not in evaluation.unique_columns:
                compared = [(row[column], wanted[column]) for row, wanted in pairs]
                verdicts = await self._compared(compared, evaluation.eval_pipeline[column])
                for each, is_right in zip(cells, verdicts, strict=True):
                    each[column] = is_right
        return _verdict("", scores(cells, len(rows), len(expected), len(evaluation.required)))

    async def _with_columns(self, table: Table, required: list[str]) -> Table:
        if table[0].keys() == set(required):
            return table
        mapping = await self._aligned(list(table[0]), required)
        return [{mapping.get(name, name): cell for name, cell in reversed(row.items())} for row in table]

    async def _aligned(self, values: list[str], references: list[str]) -> dict[str, str]:
        """Return the reference that means the same as a value; the judge says which."""
        if set(values) <= set(references):
            return {}
        values, references = (list(dict.fromkeys(texts)) for texts in (values, references))
        asked = {
            "values": json.dumps(values, ensure_ascii=False),
            "references": json.dumps(references, ensure_ascii=False),
        }
        judgement = await self.ask(
            asked, _fenced if self.conform else _last_object, prompt="align", unparsable={} if self.conform else FAILS
        )
        return {name: str(value) for name, value in judgement.value.items()}

    async def _compared(self, pairs: list[tuple[str, str]], pipeline: Pipeline) -> list[bool]:
        """Return which cells of a column are right by all of its metrics."""
        right = [True] * len(pairs)
        for metric in pipeline.metric if pairs else ():
            if metric == "llm_judge":
                verdicts = await self._judged(pairs, str(pipeline.criterion or ""))
            elif metric == "date_near":
                days = await self._read_days([text for pair in pairs for text in pair])
                verdicts = [near_day(days[cell][1], days[wanted][1]) for cell, wanted in pairs]
            else:
                verdicts = [METRICS[metric](cell, wanted, pipeline.criterion) for cell, wanted in pairs]
            right = [one and other for one, other in zip(right, verdicts, strict=True)]
        return right

    async def _judged(self, pairs: list[tuple[str, str]], criterion: str) -> list[bool]:
        names = [f"idx_{number}" for number in range(len(pairs))]
        shown = {name: {"response": cell, "target": wanted} for name, (cell, wanted) in zip(names, pairs, strict=True)}

        def parse(text: str) -> dict[str, Any] | None:
            if self.conform:
                return _fenced(text)
            verdicts = _last_object(text)
            return verdicts if verdicts and all(verdicts.get(name) in (0, 1) for name in names) else None

        asked = {"criterion": criterion, "pairs": json.dumps(shown, ensure_ascii=False, indent=1)}
        judgement = await self.ask(asked, parse, unparsable={} if self.conform else FAILS)
        return [judgement.value.get(name) == 1 for name in names]

    async def _prepare(self, rows: Table, column: str, step: str) -> None:
        days = await self._read_days([row[column] for row in rows]) if step == "norm_date" else {}
        for row in rows:
            cell = row[column]
            dated = days.get(cell, (None, None))[0] or cell
            row[column] = {"norm_str": normal_text, "extract_number": first_number}.get(step, str)(dated)

    async def _read_days(self, texts: list[str]) -> dict[str, tuple[str | None, str | None]]:
        different = list(dict.fromkeys(texts))
        pool = shared_pool("gym_llm.envs.widesearch.tables:dates_in_worker", deadline=self.config.deadline)
        try:
            days = await pool.call(different) if different else []
        except (DeadlinePassed, WorkerDied):
            days = [(None, None)] * len(different)
        return dict(zip(different, days, strict=True))


def _last_object(text: str) -> dict[str, Any] | None:
    return deque([None, *json_objects(text)], maxlen=1)[0]


def _fenced(text: str) -> dict[str, Any]:
    """Return the object of the last fence of JSON, as NeMo Gym does; empty without one."""
    try:
        members = json.loads(last_fence(text, {"json"}) or "{}")
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def _verdict(message: str, found: dict[str, float] | None = None) -> Verdict:
    found = found or scores([], 0, 0, 1)
    is_right = all(score == 1.0 for score in found.values())
    message = message or ("All items match perfectly." if is_right else "Table is incomplete or contains mismatches.")
    return Verdict(float(is_right), {**found, "evaluation_message": message})


def _markdown(rows: Table, columns: list[str]) -> str:
    cells = [columns, ["---"] * len(columns), *([row[name].replace("|", "\\|") for name in columns] for row in rows)]
    lines = "\n".join(f"| {' | '.join(line)} |".replace("\n", " ") for line in cells)
    return f"```markdown\n{lines}\n```"
