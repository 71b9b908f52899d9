"""MathWithAutograder: final answers graded against a reference (NeMo Gym's `math_with_autograder`)."""

from __future__ import annotations

from typing import Any

from gym_llm import Episode, Verdict
from gym_llm.envs.math_with_judge.env import MathWithJudge
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.extraction import last_brace_box
from gym_llm.judge import labels


class MathWithAutograder(MathWithJudge):
    r"""Answer a question of mathematics; 1.0 if math-verify finds it equal, or a judge grades it as correct.

    The judge is asked once, about the content of the last box. Details as of `MathWithJudge`.
    """

    needs_box = False

    async def judge_answer(self, task: Any, episode: Episode, verdict: Verdict) -> bool:
        r"""Whether the judge ends with `\boxed{Correct}`."""
        text = self.text_of(episode)
        if self.conform:
            boxed = last_brace_box(text, "\\boxed" if "\\boxed" in text else "\\fbox")
        else:
            boxed = last_boxed(text.replace("\\fbox", "\\boxed"))
        answer = boxed or verdict.info["extracted_answer"] or text
        values = {"problem": task.question, "expected_answer": task.expected_answer, "predicted_answer": answer}
        parse = labels("\\boxed{Correct}", "\\boxed{Incorrect}", conform=bool(self.conform))
        return (await self.decide(values, parse)).value
