"""Ruler2: long-context tasks, by soft matching of texts or by a letter (NeMo Gym's `ruler2`)."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.ruler2.grading import last_part, letter_as_nemo_gym, soft_match, without_documents
from gym_llm.grading.choices import ANY_LETTER, stated_choice
from gym_llm.grading.quotations import meant_words, own_words

_CONTROL = re.compile(r"[\x00-\x1f]")
_SHOWN = 100_000  # characters of the answer that the details repeat


class Ruler2(NemoCompatible):
    """Answer from a long context; the reward is how well the references are matched, or whether the letter is right.

    Details: `predicted_answer`, and of multiple choice `extracted_answer`, a letter or None.

    Args:
        conform: `"nemo"` reads the letter as NeMo Gym does: of several the last capital.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("near miss", "all options"),
        "the benchmark's own rule: the share of the answers that are said, whatever else is",
    )

    class Task(BaseTask):
        """The references, or the right letter, and how to compare."""

        expected_answer: str | list[str]
        eval_type: Literal["ruler2", "multichoice"] = "ruler2"
        match_type: Literal["all", "part", "2steps"] = "all"
        task: str | None = None
        length: int | None = None

        @model_validator(mode="after")
        def _fits(self) -> Ruler2.Task:
            if self.eval_type == "multichoice" and not isinstance(self.expected_answer, str):
                raise ValueError("expected_answer of a multichoice task is a letter, not a list")
            if not self.expected_answer:
                raise ValueError("expected_answer is empty")
            return self

        @cached_property
        def references(self) -> list[str]:
            """The texts to find, in lower case."""
            several = [self.expected_answer] if isinstance(self.expected_answer, str) else self.expected_answer
            return [reference.lower() for reference in several]

    def oracle(self, task: Task) -> str:
        """Return the letter, or every reference."""
        expected = task.expected_answer
        if task.eval_type == "multichoice":
            return f"The final answer is ({expected})."
        return expected if isinstance(expected, str) else ", ".join(expected)

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare all that the model said with the references."""
        said = episode.text
        details = {"predicted_answer": _CONTROL.sub("\n", said[:_SHOWN].strip()).strip()}
        said = own_words(said, episode) if self.conform else meant_words(said, episode)
        if isinstance(task.expected_answer, str) and task.eval_type == "multichoice":
            letter = letter_as_nemo_gym(said) if self.conform else stated_choice(said, ANY_LETTER)
            reward = float(letter == task.expected_answer.strip().upper())
            return Verdict(reward, {**details, "extracted_answer": letter})
        if task.match_type == "part":
            said = without_documents(said)
        elif task.match_type == "2steps":
            said = last_part(said)
        said = said.lower()
        scores = [soft_match(said, reference) for reference in task.references]
        return Verdict(max(scores) if task.match_type == "part" else sum(scores) / len(scores), details)
