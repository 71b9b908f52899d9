"""PhysicsJudge: answers to problems of physics (NeMo Gym's `physics_judge`)."""

from __future__ import annotations

from typing import Any

from gym_llm import Episode, Verdict
from gym_llm.envs.math_with_judge.env import MathWithJudge
from gym_llm.judge import last_label


class PhysicsJudge(MathWithJudge):
    """Answer a problem of physics; 1.0 if math-verify finds the answer equal, or a judge of the whole text does.

    Details: `domain` of the task, and those of `MathWithJudge`.
    """

    needs_box = False

    class Task(MathWithJudge.Task):
        """The field that the problem is from."""

        domain: str | None = None

    async def verify(self, task: Any, episode: Episode) -> Verdict:
        """The row of `MathWithJudge`, with the physics question."""
        verdict = await super().verify(task, episode)
        if task.domain is not None:
            verdict.info["domain"] = task.domain
        return verdict

    async def judge_answer(self, task: Any, episode: Episode, verdict: Verdict) -> bool:
        """Whether the judge ends with `[Correct]`."""
        values = {"problem": task.question, "expected_answer": task.expected_answer, "generation": episode.answer}
        return (await self.decide(values, _correct_anywhere if self.conform else _last_mark)).value


def _last_mark(text: str) -> bool | None:
    mark = last_label(text, ("[Correct]", "[Incorrect]"), ignore_case=True)
    return None if mark is None else mark == "[Correct]"


def _correct_anywhere(text: str) -> bool:
    return "[correct]" in text.lower()
