"""HealthBench: a conversation about health, graded by criteria that physicians wrote."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.judge import JudgedEnv, json_field
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Item


class Criterion(BaseModel):
    """A criterion, and the points for meeting it: negative ones for something bad."""

    model_config = ConfigDict(extra="allow", frozen=True)

    criterion: str
    points: float


class HealthBench(JudgedEnv):
    """Answer in a conversation about health; the reward is the share of points that a judge gives, at least 0.

    The judge is asked about each criterion. Details: `score` (the share, negative too), `rubric_evaluations`.

    Args:
        **kwargs: As for every `JudgedEnv`.
    """

    dry_run_kwargs = {"judge": 'constant:{"criteria_met": true}'}
    judge_thinks = True
    metrics = {"score": Metric()}

    class Task(BaseTask):
        """The criteria."""

        rubrics: list[Criterion]

        @model_validator(mode="after")
        def _has_points(self) -> HealthBench.Task:
            if not any(each.points > 0 for each in self.rubrics):
                raise ValueError("no criterion has points to earn")
            return self

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge about each criterion, and add up the points; an empty answer meets none."""
        answer = strip_thinking(episode.last_message, unclosed=self.conform is None)
        shown = {"conversation": _conversation(episode.request["input"]), "answer": answer}
        asked = [{**shown, "criterion": each.criterion} for each in task.rubrics]
        met = [False] * len(asked)
        if answer.strip() or self.conform:
            judgements = await self.ask_each(asked, json_field("criteria_met", (True, False)))
            met = [bool(judgement.value) for judgement in judgements]
        evaluations = [
            {"criterion": each.criterion, "points": each.points, "criteria_met": is_met}
            for each, is_met in zip(task.rubrics, met, strict=True)
        ]
        possible = sum(each.points for each in task.rubrics if each.points > 0)
        score = sum(each.points for each, is_met in zip(task.rubrics, met, strict=True) if is_met) / possible
        return Verdict(min(1.0, max(0.0, score)), {"score": score, "rubric_evaluations": evaluations})


def _conversation(items: list[Item]) -> str:
    return "\n\n".join(f"{item.get('role', '')}: {_text(item.get('content'))}" for item in items if "role" in item)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
