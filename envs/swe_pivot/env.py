"""SWEPivot: a coding agent's next call, near the expert's (NeMo Gym's `swe_pivot`)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.swe_pivot.comparison import Grade, Settings, grade, read_object
from gym_llm.grading.call_matching import NOT_JSON, call_items, parse_arguments
from gym_llm.grading.text_metrics import in_worker
from gym_llm.types import Item, Row, known

DEADLINE = 5.0  # seconds of CPU time; two texts of two thousand characters take a tenth
_QUICK = 60_000  # product of the arguments' lengths; such texts take some 20 ms at most

Share = Annotated[float, Field(ge=0, le=1)]


class SWEPivot(NemoCompatible):
    """Make the call that an expert made next: the same kind of tool, the same target, similar arguments.

    Nothing is run: the first turn with calls ends the episode, and its first call is graded. The reward is 1.0 or 0.0,
    or, with `reward_mode="continuous"`, something between.

    Args:
        reward_mode: `"binary"` or `"continuous"`.
        enable_target_match: Whether the target (file, command, place) has to be the same.
        enable_argument_similarity: Whether an edit's texts, or a shell's commands, have to be similar.
        similarity_threshold: The similarity below which a continuous reward is 0; at it, it is 0.5.
        similarity_full_credit: The similarity from which on the reward is 1.
        enable_diff_size_shaping: Whether large edits cost something of a continuous reward.
        diff_size_alpha: How much of it, at most.
        conform: `"nemo"` compares as NeMo Gym does, where it is wrong; the README says where.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    executes_tools = False
    reverify_mode = "stateless"
    accepted_findings = {
        "near miss": "that the agent finishes, and where it looks, is compared; not what it says then or looks for",
    }
    metrics = {
        "tool_name_match": Metric("rate"),
        "target_match": Metric("rate"),
        "similarity_score": Metric(),
        "diff_size_penalty": Metric(higher_is_better=False),
    }

    class Task(BaseTask):
        """The expert's call: `expected_action`, or as JSON `expected_answer`, or in `metadata`."""

        expected_action: dict[str, Any] | None = None
        expected_answer: str | None = None
        metadata: dict[str, Any] | None = None

        @model_validator(mode="after")
        def _readable(self) -> SWEPivot.Task:
            _ = self.call
            return self

        @cached_property
        def call(self) -> tuple[str, dict[str, Any]]:
            """Its name and arguments."""
            answer = parse_arguments(self.expected_answer or "")
            for action in (
                self.expected_action,
                None if answer is NOT_JSON else answer,
                (self.metadata or {}).get("expected_action"),
            ):
                if isinstance(action, dict) and action.get("type") == "function_call":
                    if not isinstance(name := action.get("name"), str):
                        raise ValueError("the expected call has no name")
                    return name, read_object(action.get("arguments", ""))
            raise ValueError("there is no expected call: neither in expected_action, nor expected_answer, nor metadata")

        @cached_property
        def size(self) -> int:
            """Characters of the expected arguments, about."""
            return len(str(self.call[1]))

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        reward_mode: Literal["binary", "continuous"] = "binary"
        enable_target_match: bool = True
        enable_argument_similarity: bool = True
        similarity_threshold: Share = 0.4
        similarity_full_credit: Share = 0.8
        enable_diff_size_shaping: bool = True
        diff_size_alpha: Share = 0.1

        @model_validator(mode="after")
        def _ordered(self) -> SWEPivot.Config:
            if self.similarity_threshold > self.similarity_full_credit:
                raise ValueError("similarity_threshold is at most similarity_full_credit")
            return self

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        config = self.config
        self._settings = Settings(
            config.reward_mode,
            config.enable_target_match,
            config.enable_argument_similarity,
            config.similarity_threshold,
            config.similarity_full_credit,
            config.enable_diff_size_shaping,
            config.diff_size_alpha,
            self.conform is not None,
        )

    def oracle(self, task: Task) -> list[Item]:
        """Return the expert's call."""
        return call_items([task.call])

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Compare the first call with the expert's."""
        call = next(episode.function_calls(), None)
        if call is None:
            return _verdict(task, Grade(0.0, "model_output_invalid", model_output="(no function_call in response)"))
        argument = (task.call, (call["name"], call["arguments"]), self._settings)
        if task.size * len(call["arguments"]) <= _QUICK:
            return _verdict(task, grade(argument))
        return self._grade_in_worker(task, argument)

    async def _grade_in_worker(self, task: Task, argument: Any) -> Verdict:
        graded = await in_worker("gym_llm.envs.swe_pivot.comparison:grade", argument, DEADLINE)
        return _verdict(task, graded or Grade(0.0, "unknown_error", True))


def _verdict(task: SWEPivot.Task, graded: Grade) -> Verdict:
    details = {
        "expected_answer": task.expected_answer or "",
        "model_output": graded.model_output,
        "tool_name_match": graded.name_matches,
        "target_match": graded.target_matches,
        **known(similarity_score=graded.similarity, diff_size_penalty=graded.penalty),
        "failure_reason": graded.failure,
    }
    return Verdict(graded.reward, details)
