"""TerminusJudge: the next commands of a terminal agent, near an expert's (NeMo Gym's `terminus_judge`)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import Reward
from gym_llm.envs.terminus_judge.actions import fits, is_complete, keystrokes, known_harness, read_action
from gym_llm.grading.text_metrics import sequence_ratio
from gym_llm.judge import FAILS, JudgedEnv, tail_label
from gym_llm.types import Row, known


class Metadata(BaseModel):
    """The origin of the task, and optionally its expected answer."""

    harness: str | None = None
    category: str | None = None
    expected_answer: str | None = None


class TerminusJudge(JudgedEnv):
    """Choose the next commands as one JSON object; 1.0 if they are nearly the expert's, or a judge finds them alike.

    Args:
        enable_string_similarity: Whether the keystrokes are compared first.
        string_similarity_threshold: From which similarity (0 to 1) on that is enough; a row's `threshold` goes before.
        enable_llm_judge: Whether a judge is asked otherwise; None for whether one is given.
        check_twice_swap: Whether the judge has to agree with the two exchanged.
        reward_if_swap_fails: The reward if it does not.
        judge_equal_label: What the judge says of what does the same.
        judge_not_equal_label: What it says of others.
        **kwargs: As for every `JudgedEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    accepted_findings = {"near miss": "the commands are compared, not what is said of them"}
    judge_required = False
    executes_tools = False

    class Task(BaseTask):
        """The expert's action as JSON, and the harness whose form it has."""

        expected_answer: str | None = None
        metadata: Metadata
        threshold: float | None = None
        uuid: str | int | None = None

        @property
        def expected(self) -> dict[str, Any]:
            """The expert's action."""
            return read_action(self.expected_answer or self.metadata.expected_answer or "") or {}

        @model_validator(mode="after")
        def _is_an_action(self) -> TerminusJudge.Task:
            if not known_harness(self.metadata.harness):
                raise ValueError(f"metadata.harness is terminus_1 or terminus_2, got {self.metadata.harness!r}")
            if not fits(self.expected, str(self.metadata.harness)):
                raise ValueError(f"expected_answer is not an action of {self.metadata.harness} as a JSON object")
            return self

    class Config(JudgedEnv.Config):
        """Arguments of the class."""

        enable_string_similarity: bool = True
        string_similarity_threshold: float = 0.95
        enable_llm_judge: bool | None = None
        check_twice_swap: bool = False
        reward_if_swap_fails: Reward = 0.0
        judge_equal_label: str = "[[A=B]]"
        judge_not_equal_label: str = "[[A!=B]]"

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        config = self.config
        if config.enable_llm_judge and self.judge is None:
            raise ValueError('enable_llm_judge needs a judge: judge="http://HOST:PORT/v1".')
        self.enable_llm_judge = self.judge is not None if config.enable_llm_judge is None else config.enable_llm_judge
        conform = self.conform is not None
        self._parse = tail_label(config.judge_equal_label, config.judge_not_equal_label, conform=conform)

    def oracle(self, task: Task) -> str:
        """Return the expert's action."""
        return task.expected_answer or task.metadata.expected_answer or ""

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Check the form, then the keystrokes, then ask the judge."""
        action, expected = read_action(episode.messages_text), task.expected
        said = episode.messages_text.rpartition("</think>")[2].strip()
        details: dict[str, Any] = {"model_output": said, "parsed_output": action, **known(threshold=task.threshold)}

        def ended(reason: str, reward: float = 0.0) -> Verdict:
            return Verdict(reward, {**details, "failure_reason": reason})

        if action is None:
            return ended("model_output_invalid")
        details["schema_check_passed"] = fits(action, str(task.metadata.harness))
        if not details["schema_check_passed"]:
            return ended("schema_check_failed")
        claims, may = is_complete(action), is_complete(expected)
        details["task_complete_check_passed"] = (claims or not may) if self.conform else claims == may
        if not details["task_complete_check_passed"]:
            return ended("task_complete_check_failed")
        if self.config.enable_string_similarity:
            similarity = await sequence_ratio(keystrokes(expected), keystrokes(action)) or 0.0
            threshold = self.config.string_similarity_threshold if task.threshold is None else task.threshold
            details["similarity_score"] = similarity
            details["string_similarity_passed"] = similarity >= threshold
            if similarity >= threshold:
                return ended("none", 1.0)
            if not self.enable_llm_judge:
                return ended("string_similarity_below_threshold")
        elif not self.enable_llm_judge:
            return ended("none", 1.0)
        values = {
            "expected_answer": task.expected_answer or task.metadata.expected_answer,
            "generated_answer": said,
        }
        swap = ("expected_answer", "generated_answer") if self.config.check_twice_swap else None
        judgement = await self.ask(values, self._parse, swap=swap, unparsable="" if self.conform else FAILS)
        if judgement.value == "":
            return ended("judge_parsing_failed")
        last_label = self.judge_evaluations[-1]["verdict_label"]
        if self.conform and judgement.swap_failed and last_label is None:
            return ended("judge_swap_parsing_failed")
        details["judge_passed"] = bool(judgement.value)
        if judgement.value:
            return ended("none", 1.0)
        return ended("judge_evaluation_failed", self.config.reward_if_swap_fails if judgement.swap_failed else 0.0)
