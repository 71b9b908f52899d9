"""IMOGradingBench: grades for proofs (NeMo Gym's `imo_gradingbench`)."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.denials import is_doubted, is_given
from gym_llm.grading.quotations import meant_words

POINTS = {"correct": 7, "almost": 6, "partial": 1, "incorrect": 0}
_MARKS = str.maketrans("", "", "*_`.,;:!?()[]{}")
_LONGEST_WORD = 10_000  # marks included


class IMOGradingBench(NemoCompatible):
    """Grade a proof with the last word of the answer: correct, almost, partial or incorrect; 1.0 for the right grade.

    Details: `extracted_grade`, None if the last word is not a grade. `binary_match`, whether both grades are in the
    same half. `score_diff`, the difference of the grades in points out of 7, None without a grade.
    """

    reverify_mode = "stateless"
    metrics = {
        "binary_match": Metric("rate"),
        "score_diff": Metric("mean", higher_is_better=False),
    }

    class Task(BaseTask):
        """The right grade; problem and proof are in the prompt."""

        expected_answer: Literal["correct", "almost", "partial", "incorrect"]
        grading_id: str | None = None
        problem_id: str | None = None

        @field_validator("expected_answer", mode="before")
        @classmethod
        def _plain(cls, grade: object) -> object:
            return grade.strip().lower() if isinstance(grade, str) else grade

    def oracle(self, task: Task) -> str:
        """Return the right grade."""
        return task.expected_answer

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the last word with the right grade."""
        text = episode.messages_text if self.conform else meant_words(episode.messages_text, episode)
        words = text.rsplit(None, 1)
        grade = words[-1].translate(_MARKS).lower() if words and len(words[-1]) <= _LONGEST_WORD else ""
        start = len(text.rstrip()) - len(words[-1]) if words else 0
        is_meant = self.conform or (is_given(text, start, start + len(grade)) and not is_doubted(text, start))
        if grade not in POINTS or not is_meant:
            return Verdict(0.0, {"extracted_grade": None, "binary_match": False, "score_diff": None})
        points, gold = POINTS[grade], POINTS[task.expected_answer]
        details = {
            "extracted_grade": grade,
            "binary_match": (points > 1) == (gold > 1),
            "score_diff": float(abs(points - gold)),
        }
        return Verdict(float(points == gold), details)
