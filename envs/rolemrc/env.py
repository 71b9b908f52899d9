"""RoleMRC: answer a passage's question in a role, near a reference (NeMo Gym's `rolemrc`, its reference mode)."""

from __future__ import annotations

from functools import cached_property

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.rouge import Reference, rouge_words
from gym_llm.tokens.parsers.thinking import without_cut_thought, without_spans

_LONGEST = 50_000  # characters of an answer that are read
_DIGITS = 4


class RoleMRC(NemoCompatible):
    """Answer as the role would; the reward is ROUGE-L, F1 of the longest subsequence shared with the reference.

    Details: `generation`, `rouge1`, `rouge2`, `rougeL` (the reward), rounded to four digits, as the reward is.

    Args:
        conform: `"nemo"` rounds nothing and leaves out a text's reasoning, as NeMo Gym.
        **kwargs: As for every `VerifierEnv`.
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
        said = _after_thinking(episode.text) if self.conform else without_cut_thought(episode.text).strip()
        words = rouge_words(said[:_LONGEST])
        scores = {
            "rouge1": task.rouge.rouge_1(words),
            "rouge2": task.rouge.rouge_2(words),
            "rougeL": task.rouge.rouge_l(words),
        }
        if not self.conform:
            scores = {name: round(score, _DIGITS) for name, score in scores.items()}
        return Verdict(scores["rougeL"], {"generation": said, **scores})


def _after_thinking(text: str) -> str:
    """Return a text without its reasoning, as NeMo Gym reads it.

    >>> _after_thinking("<think>a</think> b"), _after_thinking("a</think> b"), _after_thinking("<think>a")
    ('b', 'b', '<think>a')
    """
    rest = without_spans(text, "<think>", "</think>")
    return (rest if rest != text or "</think>" not in text else text.partition("</think>")[2]).strip()
