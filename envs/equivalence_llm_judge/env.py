"""EquivalenceLLMJudge: short answers, judged equivalent to a gold one (NeMo Gym's `equivalence_llm_judge`)."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, Field

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import Reward
from gym_llm.grading.text_metrics import in_worker
from gym_llm.judge import FAILS, JudgedEnv, labels
from gym_llm.tokens.parsers.thinking import without_cut_thought
from gym_llm.types import Row

REGEX_DEADLINE = 2.0  # seconds of CPU time; only a pattern that backtracks without end needs more


class TemplateMetadata(BaseModel):
    """The form that the prompt asks for."""

    output_regex: str | None = None


class EquivalenceLLMJudge(JudgedEnv):
    """Answer a question; 1.0 if a judge finds the answer equivalent to the expected one. The README has the details.

    Args:
        judge_equal_label: The judge's label for equivalent answers.
        judge_not_equal_label: Its label for other answers.
        question_extract_regex: Pattern that finds the question in the user's message; None takes all of it.
        response_extract_regex: Pattern that finds the answer if the row has no pattern; None takes all of it.
        use_per_record_regex: Whether a row's `template_metadata.output_regex` finds the answer.
        extraction_length_threshold: Longest expected answer, in characters, for which that pattern is used.
        check_twice_swap: Whether the judge has to agree again when the two answers change places.
        reward_if_swap_fails: The reward if it does not.
        check_full_generation_on_fail: Whether the whole text is judged if the answer that the row's pattern found is
            wrong.
        reward_if_full_generation_succeeds: The reward if the whole text is right.
        max_answer_chars: Longest answer, in characters, that is judged; a longer one scores 0.0. None: any.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:[[A=B]]"}

    class Task(BaseTask):
        """The expected answer, here or in `metadata`, and an optional pattern for the model's answer."""

        expected_answer: str | None = None
        metadata: dict[str, Any] | None = None
        template_metadata: TemplateMetadata | None = None
        uuid: str | int | None = None

        @property
        def gold(self) -> str:
            """The expected answer."""
            return str(self.expected_answer or (self.metadata or {}).get("expected_answer") or "")

    class Config(JudgedEnv.Config):
        """The labels, the patterns, and the second judgement."""

        judge_equal_label: str = "[[A=B]]"
        judge_not_equal_label: str = "[[A!=B]]"
        question_extract_regex: str | None = None
        response_extract_regex: str | None = None
        use_per_record_regex: bool = True
        extraction_length_threshold: int | None = 120
        check_twice_swap: bool = False
        reward_if_swap_fails: Reward = 0.0
        check_full_generation_on_fail: bool = True
        reward_if_full_generation_succeeds: Reward = 0.5
        max_answer_chars: Annotated[int, Field(gt=0)] | None = None

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        equal, other = self.config.judge_equal_label, self.config.judge_not_equal_label
        self._parse = labels(equal, other, conform=self.conform is not None, last=True)

    def oracle(self, task: Task) -> str | None:
        """Return the expected answer."""
        return task.gold or None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge about the extracted answer; a yes is asked again swapped, a no with the whole text."""
        config, gold, text, details = self.config, task.gold, episode.last_message, {"expected_answer": task.gold}
        text = text if self.conform else without_cut_thought(text)
        if not text or len(text) > (config.max_answer_chars or math.inf):
            return Verdict(
                0.0, {**details, "failure_reason": "final_answer_too_long" if text else "empty_final_answer"}
            )
        threshold = config.extraction_length_threshold
        is_long = threshold is not None and len(gold) > threshold
        metadata = task.template_metadata if config.use_per_record_regex else None
        pattern = metadata.output_regex if metadata else None
        answer = await _found(None if pattern and is_long else pattern or config.response_extract_regex, text) or text
        question = await _found(config.question_extract_regex, episode.question) or episode.question
        values = {"question": question, "expected_answer": gold, "generated_answer": answer}
        swaps = config.check_twice_swap and not (pattern and is_long)
        swap = ("expected_answer", "generated_answer") if swaps else None
        unparsable = False if self.conform else FAILS
        judgement = await self.ask(values, self._parse, swap=swap, unparsable=unparsable)
        if judgement.value or judgement.swap_failed:
            return Verdict(1.0 if judgement.value else config.reward_if_swap_fails, details)
        if pattern and not is_long and config.check_full_generation_on_fail and (answer != text or self.conform):
            whole = await self.ask({**values, "generated_answer": text}, self._parse, unparsable=unparsable)
            if whole.value:
                return Verdict(config.reward_if_full_generation_succeeds, details)
        return Verdict(0.0, details)


async def _found(pattern: str | None, text: str) -> str | None:
    if pattern is None:
        return None
    found: str | None = await in_worker("gym_llm.grading.extraction:last_match", (pattern, text), REGEX_DEADLINE)
    return found
