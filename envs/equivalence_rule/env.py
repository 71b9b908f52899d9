"""EquivalenceRule: the whole answer against the expected text (NeMo Gym's `equivalence_rule`)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from typing import Literal

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.text_metrics import quick_ratio, sequence_ratio

_BEGINNING = 10  # characters that `weighted_seq_match` weighs once more


class EquivalenceRule(NemoCompatible):
    """Say exactly the expected text, e.g. one found in a long context; case and white space make no difference.

    Details: `equivalence_score` (the reward); with a rule of ratios also `timed_out`.

    Args:
        grading_rule: `"exact"` pays 1.0 for the same text, else 0.0. `"seq_match"` pays difflib's ratio of the texts.
            `"weighted_seq_match"` pays 0.85 of this ratio and 0.15 of the ratio of their first ten characters.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        ValueError: If the rule is unknown.
    """

    metrics = {"timed_out": Metric("rate", higher_is_better=False)}
    reverify_mode = "stateless"

    class Task(BaseTask):
        """The text to say."""

        expected_answer: str

        @cached_property
        def expected(self) -> str:
            """The text in the form that is compared."""
            return _plain(self.expected_answer)

    class Config(NemoCompatible.Config):
        """The rule."""

        grading_rule: Literal["exact", "seq_match", "weighted_seq_match"] = "exact"

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected text."""
        return task.expected_answer

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Compare all that the model said with the expected text."""
        if self.config.grading_rule == "exact":
            most = task.expected.count(" ") + 1  # a text of more words is not split to its end
            words = episode.text.split(None, most)
            return Verdict(score := float(" ".join(words).lower() == task.expected), {"equivalence_score": score})
        return self._compare(_plain(episode.text), task.expected)

    async def _compare(self, said: str, expected: str) -> Verdict:
        ratio = await sequence_ratio(said, expected)
        score = ratio or 0.0
        if ratio is not None and self.config.grading_rule == "weighted_seq_match":
            beginning = expected[:_BEGINNING]
            score = 0.85 * ratio + 0.15 * (quick_ratio(said[: len(beginning)], beginning) or 0.0)
        return Verdict(score, {"equivalence_score": score, "timed_out": ratio is None})


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
