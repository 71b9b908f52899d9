"""RoleMRC: answer a passage's question in a role, near a reference (NeMo Gym's `rolemrc`, its reference mode)."""

from __future__ import annotations

from functools import cached_property

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.grading.rouge import Reference, rouge_words
from gym_llm.tokens.parsers.thinking import without_cut_thought

_LONGEST = 50_000  # characters of an answer that are read
_DIGITS = 4


class RoleMRC(VerifierEnv):
    """Answer as the role would; the reward is ROUGE-L, F1 of the longest subsequence shared with the reference.

    Details: `generation`, `rouge1`, `rouge2`, `rougeL` (the reward), rounded to four digits, as the reward is.
    """

    metrics = {"rouge1": Metric(), "rouge2": Metric()}
    reverify_mode = "stateless"

    class Task(BaseTask):
        """The reference answer, and which of RoleMRC's tasks it is."""

        reference: str
        task: str | None = None
        dimension: str | None = None

        @field_validator("reference")
        @classmethod
        def _has_words(cls, reference: str) -> str:
            if not rouge_words(reference):
                raise ValueError("reference has no words of ASCII letters or digits, so that no answer is like it")
            return reference

        @cached_property
        def rouge(self) -> Reference:
            """The reference, read."""
            return Reference(rouge_words(self.reference))

    def oracle(self, task: Task) -> str:
        """Return the reference."""
        return task.reference

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare all that the model said with the reference."""
        said = without_cut_thought(episode.text).strip()
        words = rouge_words(said[:_LONGEST])
        reward = round(task.rouge.rouge_l(words), _DIGITS)
        details = {
            "generation": said,
            "rouge1": round(task.rouge.rouge_1(words), _DIGITS),
            "rouge2": round(task.rouge.rouge_2(words), _DIGITS),
            "rougeL": reward,
        }
        return Verdict(reward, details)
