"""EquivalenceLLMJudge: short answers, judged equivalent to a gold one (NeMo Gym's `equivalence_llm_judge`)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.judge import FAILS, JudgedEnv, labels
from gym_llm.types import Row

REGEX_DEADLINE = 2.0  # seconds of CPU time; only a pattern that backtracks without end needs more


class TemplateMetadata(BaseModel):
    """How the prompt asks for the answer."""

    output_regex: str | None = None


class EquivalenceLLMJudge(JudgedEnv):
    """Answer a question; 1.0 if a judge finds the answer equivalent to the expected one. The README says more.

    Args:
        judge_equal_label: What the judge says of equivalent answers.
        judge_not_equal_label: What it says of others.
        question_extract_regex: Finds the question in the user's message; None for all of it.
        response_extract_regex: Finds the answer, where the row has no pattern of its own; None for all of it.
        use_per_record_regex: Whether a row's `template_metadata.output_regex` finds the answer.
        extraction_length_threshold: The longest expected answer, in characters, for which that pattern is used.
        check_twice_swap: Whether the judge has to agree with the two answers exchanged.
        reward_if_swap_fails: The reward if it does not.
        check_full_generation_on_fail: Whether the whole text is judged where what the row's pattern found is wrong.
        reward_if_full_generation_succeeds: The reward if that is.
        msg_extraction_failure: With `conform`: what is judged where nothing was said.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:[[A=B]]"}

    class Task(BaseTask):
        """The expected answer, or `metadata.expected_answer`; perhaps a pattern for the model's."""

        expected_answer: str | None = None
        metadata: dict[str, Any] | None = None
        template_metadata: TemplateMetadata | None = None
        uuid: str | int | None = None

        @property
        def gold(self) -> str:
            """The expected answer."""
            return str(self.expected_answer or (self.metadata or {}).get("expected_answer") or "")

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        judge_equal_label: str = "[[A=B]]",
        judge_not_equal_label: str = "[[A!=B]]",
        question_extract_regex: str | None = None,
        response_extract_regex: str | None = None,
        use_per_record_regex: bool = True,
        extraction_length_threshold: int | None = 120,
        check_twice_swap: bool = False,
        reward_if_swap_fails: float = 0.0,
        check_full_generation_on_fail: bool = True,
        reward_if_full_generation_succeeds: float = 0.5,
        msg_extraction_failure: str = "[NO VALID ANSWER EXTRACTED]",
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks, **kwargs)
        self.question_extract_regex = question_extract_regex
        self.response_extract_regex = response_extract_regex
        self.use_per_record_regex = use_per_record_regex
        self.extraction_length_threshold = extraction_length_threshold
        self.check_twice_swap = check_twice_swap
        self.reward_if_swap_fails = reward_if_swap_fails
        self.check_full_generation_on_fail = check_full_generation_on_fail
        self.reward_if_full_generation_succeeds = reward_if_full_generation_succeeds
        self.msg_extraction_failure = msg_extraction_failure
        self._parse = labels(judge_equal_label, judge_not_equal_label, conform=self.conform is not None)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Take out the answer, and ask the judge; once more where it said yes (swapped) or no (of the whole text)."""
        gold, text, details = task.gold, episode.last_message, {"expected_answer": task.gold}
        if not text and not self.conform:
            return Verdict(0.0, details)
        threshold = self.extraction_length_threshold
        is_long = threshold is not None and len(gold) > threshold
        pattern = task.template_metadata.output_regex if task.template_metadata and self.use_per_record_regex else None
        answer = await self._answer(text, None if pattern and is_long else pattern or self.response_extract_regex)
        question = await _found(self.question_extract_regex, episode.question) or episode.question
        values = {"question": question, "expected_answer": gold, "generated_answer": answer}
        swaps = self.check_twice_swap and not (pattern and is_long)
        swap = ("expected_answer", "generated_answer") if swaps else None
        unparsable = False if self.conform else FAILS
        judgement = await self.ask(values, self._parse, swap=swap, unparsable=unparsable)
        if judgement.value or judgement.swap_failed:
            return Verdict(1.0 if judgement.value else self.reward_if_swap_fails, details)
        if pattern and not is_long and self.check_full_generation_on_fail and (answer != text or self.conform):
            whole = await self.ask({**values, "generated_answer": text}, self._parse, unparsable=unparsable)
            if whole.value:
                return Verdict(self.reward_if_full_generation_succeeds, details)
        return Verdict(0.0, details)

    async def _answer(self, text: str, pattern: str | None) -> str:
        return (await _found(pattern, text) or text) if text else self.msg_extraction_failure


async def _found(pattern: str | None, text: str) -> str | None:
    if pattern is None:
        return None
    pool = shared_pool("gym_llm.envs.equivalence_llm_judge.extraction:extract_last", deadline=REGEX_DEADLINE)
    try:
        found: str | None = await pool.call((pattern, text))
    except TimeoutError:
        return None
    return found
