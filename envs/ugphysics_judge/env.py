"""UGPhysicsJudge: answers to problems of undergraduate physics (NeMo Gym's `ugphysics_judge`)."""

from __future__ import annotations

import re
from typing import Any

from gym_llm import Episode, Verdict
from gym_llm.envs.math_with_judge.env import MathWithJudge
from gym_llm.judge import last_label, yes_no_line

_SECTION = re.compile(r"## Equivalence Judgement[ \t]{0,9}\n\s{0,9}[*_`]{0,3}(TRUE|FALSE)\b", re.IGNORECASE)


class UGPhysicsJudge(MathWithJudge):
    """Answer a problem of physics; 1.0 if math-verify finds the answer equal, or a judge who knows the solution does.

    Details: `extracted_verdict` (`TRUE`, `FALSE`, or None where the judge's cannot be read), `subject` of the task, and
    those of `MathWithJudge`.
    """

    needs_box = False

    class Task(MathWithJudge.Task):
        """The worked solution, which the judge sees, and the subject."""

        solution: str = ""
        subject: str | None = None

    async def verify(self, task: Any, episode: Episode) -> Verdict:
        """The row of `MathWithJudge`, with the physics question."""
        verdict = await super().verify(task, episode)
        verdict.info.setdefault("extracted_verdict", "TRUE" if verdict.reward > 0.5 else "FALSE")
        if task.subject is not None:
            verdict.info["subject"] = task.subject
        return verdict

    async def judge_answer(self, task: Any, episode: Episode, verdict: Verdict) -> bool:
        """Whether the judge's section, or else its last such word, says TRUE."""
        values = {
            "problem": task.question,
            "expected_answer": task.expected_answer,
            "solution": task.solution,
            "generation": episode.answer,
        }
        said = (await self.decide(values, nemo_verdict if self.conform else read_verdict)).value
        verdict.info["extracted_verdict"] = said or None
        return said == "TRUE"


def read_verdict(text: str) -> str | None:
    r"""`TRUE` or `FALSE` under the last heading for it, else the last such word that stands alone.

    >>> read_verdict("TRUE? ## Equivalence Judgement\nFALSE\nnot true")
    'FALSE'
    """
    if "equivalence judgement" in text.lower():
        under = yes_no_line("Equivalence Judgement", yes="TRUE", no="FALSE")(text)
        return None if under is None else str(under).upper()
    return last_label(text, ("TRUE", "FALSE"), ignore_case=True)


def nemo_verdict(text: str) -> str | None:
    """Return the word under the last heading, also before another one; else what `read_verdict` finds."""
    sections = _SECTION.findall(text)
    return sections[-1].upper() if sections else read_verdict(text)
