"""MultipleChoice: one letter of many (NeMo Gym's `mcqa`)."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from functools import cached_property
from typing import Any

from pydantic import BaseModel, field_validator, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.checks import check_pattern
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.multiple_choice.grading import GradingMode, chosen_option, extract_answer
from gym_llm.envs.multiple_choice.nemo_gym import chosen_option_as_nemo_gym, extract_answer_as_nemo_gym
from gym_llm.grading.choices import Options
from gym_llm.grading.quotations import meant_words

REGEX_DEADLINE = 2.0  # seconds of CPU time; only a pattern that backtracks without end needs more


class TemplateMetadata(BaseModel):
    """The prompt's request for the answer, if it is not one of the grading modes."""

    output_regex: str | list[str] = []
    """A pattern, or several to try in order. The first group of its last match (or all of it) names the option; upper
    and lower case are the same. Where none finds an option, `grading_mode` decides."""
    answer_prefix: str | None = None
    """Words that stand for `Answer:` in the mode `lenient_answer_colon_md`."""

    @field_validator("output_regex")
    @classmethod
    def _compiles(cls, patterns: str | list[str]) -> str | list[str]:
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            check_pattern(pattern, re.IGNORECASE)
        return patterns


class MultipleChoice(NemoCompatible):
    """Choose one option; the reward is 1.0 if it is the expected one. Details: `extracted_answer`, a letter or None.

    Args:
        grading_mode: How the choice is found, whatever the rows say; None for each row's own `grading_mode`.
        conform: `"nemo"` reads as NeMo Gym does where we read more; the README says what that is.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If there is no such mode.
    """

    class Task(BaseTask):
        """The options as dicts from a letter to its text, the right letter, and how to find the model's choice."""

        options: list[dict[str, str | None]] = []
        expected_answer: str
        grading_mode: GradingMode = "strict_single_letter_boxed"
        template_metadata: TemplateMetadata | None = None
        uuid: str | None = None

        @field_validator("expected_answer")
        @classmethod
        def _letter(cls, answer: str) -> str:
            return answer.strip().upper()

        @model_validator(mode="after")
        def _answerable(self) -> MultipleChoice.Task:
            letters = self.choices.letters
            if self.expected_answer not in letters and (letters or not self.patterns):
                names = ", ".join(sorted(letters)) or "none"
                raise ValueError(f"expected_answer {self.expected_answer!r} is not the letter of an option ({names})")
            return self

        @cached_property
        def choices(self) -> Options:
            """The options, ready for grading."""
            return Options.read(self.options)

        @cached_property
        def patterns(self) -> list[str]:
            """The output patterns in the order to try them."""
            regex = self.template_metadata.output_regex if self.template_metadata else []
            return [regex] if isinstance(regex, str) else regex

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        grading_mode: GradingMode | None = None

    config: Config

    def oracle(self, task: Any) -> str:
        """Return the expected letter in the form that the row's mode reads."""
        return f"Answer: {task.expected_answer}\n\\boxed{{{task.expected_answer}}}"

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Compare the option that the last message chooses with the expected one."""
        text = episode.answer
        if not self.conform:
            text = meant_words(text, episode)
        return self._verify_with_patterns(task, text) if task.patterns else self._verdict(task, text)

    def _verdict(self, task: Task, text: str) -> Verdict:
        mode = self.config.grading_mode or task.grading_mode
        prefix = task.template_metadata.answer_prefix if task.template_metadata else None
        if self.conform:
            return self._judged(task, extract_answer_as_nemo_gym(text, task.choices, mode, prefix))
        if prefix and mode == "lenient_answer_colon_md":
            said = re.sub("[:：]", "[:：]", re.escape(prefix))
            text = re.sub(said, "Answer: ", text, flags=re.IGNORECASE)
        return self._judged(task, extract_answer(text, task.choices, mode))

    async def _verify_with_patterns(self, task: Task, text: str) -> Verdict:
        # In a worker process: some pattern on some text backtracks for hours, and holds the interpreter meanwhile.
        pool = shared_pool("gym_llm.envs.multiple_choice.grading:search_last", deadline=REGEX_DEADLINE)
        try:
            captures = await pool.call((task.patterns, text))
        except TimeoutError:
            captures = []
        for captured in filter(None, captures):
            if self.conform:
                choice = chosen_option_as_nemo_gym(captured.text, task.choices)
            else:
                choice = chosen_option(captured, task.choices)
            if choice is not None:
                return self._judged(task, choice)
        return self._verdict(task, text)

    def _judged(self, task: Task, choice: str | None) -> Verdict:
        return Verdict(float(choice == task.expected_answer), {"extracted_answer": choice})
