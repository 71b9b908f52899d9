"""PolyMath: mathematics in many languages (NeMo Gym's `polymath`)."""

from __future__ import annotations

from typing import Any

from gym_llm import Episode, Verdict
from gym_llm.envs.math_with_judge.env import MathWithJudge


class PolyMath(MathWithJudge):
    """Answer a question of mathematics asked in one of many languages; verified as by `MathWithJudge`.

    Details: `language`, `weight`, `difficulty` of the task, and those of `MathWithJudge`. PolyMath's own score weights
    its levels: top 8, high 4, medium 2, low 1.
    """

    class Task(MathWithJudge.Task):
        """Language and weight of the question."""

        language: str = "en"
        weight: float = 1.0
        difficulty: str | None = None

    async def verify(self, task: Any, episode: Episode) -> Verdict:
        """The row of `MathWithJudge`, with a language."""
        verdict = await super().verify(task, episode)
        verdict.info |= {"language": task.language, "weight": task.weight, "difficulty": task.difficulty}
        return verdict
