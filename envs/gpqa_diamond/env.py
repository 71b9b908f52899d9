r"""GPQADiamond: graduate science questions with four options (NeMo Gym's `gpqa_diamond`)."""

from __future__ import annotations

import string
from typing import Any

from pydantic import model_validator

from gym_llm import Verdict
from gym_llm.envs.gpqa_diamond.grading import choice_as_nemo_gym, extract_choice
from gym_llm.envs.multiple_choice.env import MultipleChoice
from gym_llm.types import Row


class GPQADiamond(MultipleChoice):
    r"""Choose one option; the reward is 1.0 if it is the expected one. Details: `extracted_answer`.

    The last statement decides: a `\boxed{}`, a line `Answer: …`, or "the answer is …".

    Args:
        conform: `"nemo"` reads the choice as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"

    class Task(MultipleChoice.Task):
        """A task of `MultipleChoice`; without options any letter can be chosen."""

        grading_mode: Any = None  # rows name one; it has no effect here

        @model_validator(mode="after")
        def _answerable(self) -> GPQADiamond.Task:
            letters = self.choices.letters
            if self.expected_answer not in (letters or string.ascii_uppercase) or len(self.expected_answer) != 1:
                names = ", ".join(sorted(letters)) or "any"
                raise ValueError(f"expected_answer {self.expected_answer!r} is not the letter of an option ({names})")
            return self

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, grading_mode=None, **kwargs)

    def oracle(self, task: Any) -> str:
        """Return the expected letter in a box."""
        return f"\\boxed{{{task.expected_answer}}}"

    def _verdict(self, task: MultipleChoice.Task, text: str) -> Verdict:
        choice = choice_as_nemo_gym(text) if self.conform else extract_choice(text, task.choices)
        letters = task.choices.letters
        return self._judged(task, choice if not letters or choice in letters else None)
