"""MRCR: repeat one of several similar texts of a long conversation, after a random prefix (NeMo Gym's `mrcr`)."""

from __future__ import annotations

from collections.abc import Awaitable

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.text_metrics import quick_ratio, sequence_ratio
from gym_llm.tokens.parsers.thinking import without_cut_thought


class MRCR(NemoCompatible):
    """Find the text that is asked for and say it after the prefix; the reward is difflib's ratio of what was said.

    It is 0.0 without the prefix. Details: `prefix_matched`, `seq_match_ratio` (the reward), `timed_out`.
    Source of the rule: OpenAI's MRCR, https://huggingface.co/datasets/openai/mrcr.
    """

    metrics = {"prefix_matched": Metric("rate"), "timed_out": Metric("rate", higher_is_better=False)}
    reverify_mode = "stateless"

    class Task(BaseTask):
        """The expected answer, its prefix included, and how long and how hard the conversation is."""

        expected_answer: str
        random_string_to_prepend: str
        n_needles: int | None = None
        n_tokens: int | None = None

        @model_validator(mode="after")
        def _prefixed(self) -> MRCR.Task:
            if not self.expected_answer.startswith(self.random_string_to_prepend):
                raise ValueError("expected_answer does not begin with random_string_to_prepend")
            return self

    def oracle(self, task: Task) -> str:
        """Return the expected text, prefix included."""
        return task.expected_answer

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Compare what follows the prefix."""
        said = (episode.text if self.conform else without_cut_thought(episode.text)).strip()
        prefix = task.random_string_to_prepend
        if not said.startswith(prefix):
            return Verdict(0.0, {"prefix_matched": False, "seq_match_ratio": 0.0, "timed_out": False})
        said, expected = said[len(prefix) :], task.expected_answer[len(prefix) :]
        ratio = quick_ratio(said, expected)
        return self._compare(said, expected) if ratio is None else _verdict(ratio)

    async def _compare(self, said: str, expected: str) -> Verdict:
        return _verdict(await sequence_ratio(said, expected))


def _verdict(ratio: float | None) -> Verdict:
    score = ratio or 0.0
    return Verdict(score, {"prefix_matched": True, "seq_match_ratio": score, "timed_out": ratio is None})
