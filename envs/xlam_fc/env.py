"""XlamFC: the calls that a request needs, all at once (NeMo Gym's `xlam_fc`; the data is Salesforce's xLAM)."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from pydantic import BaseModel, Field, field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import (
    MOST_EXPECTED,
    NOT_JSON,
    Call,
    call_items,
    candidates,
    first_fit,
    json_equal,
    largest_matching,
    parse_arguments,
    read_calls,
)
from gym_llm.grading.unread_calls import has_unread_call, tool_names
from gym_llm.tokens.parsers.thinking import without_cut_thought
from gym_llm.types import Item, Row


class Expected(BaseModel):
    """A call, with the arguments it has to have, as an object or written as JSON. It may have others, too."""

    name: str
    arguments: dict[str, Any] = {}

    @field_validator("arguments", mode="before")
    @classmethod
    def _parsed(cls, arguments: Any) -> Any:
        return parse_arguments(arguments) if isinstance(arguments, str) else arguments


class XlamFC(NemoCompatible):
    """Make the expected calls in one turn, in any order; the reward is 1.0 if all are there and no other is.

    Nothing is run: the first turn with calls ends the episode. Details: `num_expected`, `num_predicted`, `num_correct`,
    `predicted_calls`.

    Args:
        conform: `"nemo"` pairs and compares as NeMo Gym does, where it is wrong; the README says where.
        **kwargs: As for every `VerifierEnv`.
    """

    executes_tools = False
    reverify_mode = "stateless"
    metrics = {"num_correct": Metric(), "num_predicted": Metric(higher_is_better=None)}

    class Task(BaseTask):
        """The expected calls; an empty list means that no call may be made."""

        expected_answers: Annotated[list[Expected], Field(max_length=MOST_EXPECTED)] = []

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._equal = operator.eq if self.conform else json_equal
        self._pair = first_fit if self.conform else largest_matching

    def oracle(self, task: Task) -> str | list[Item]:
        """Return the expected calls, or a message if no call is expected."""
        return call_items((call.name, call.arguments) for call in task.expected_answers) or "There is nothing to call."

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Pair the model's calls with the expected ones."""
        made = sum(1 for _ in episode.function_calls())
        found = read_calls(episode.items, as_python=self.conform is not None)
        calls = [call._replace(arguments={}) if call.arguments is NOT_JSON else call for call in found]
        expected = task.expected_answers
        correct = len(self._pair(candidates(expected, calls, self._fits)))
        details = {
            "num_expected": len(expected),
            "num_predicted": made,
            "num_correct": correct,
            "predicted_calls": [call._asdict() for call in calls],
        }
        is_right = correct == len(expected) == made
        if is_right and not made and self.conform is None:
            text = without_cut_thought(episode.text)
            is_right = bool(text.strip()) and not has_unread_call(text, tool_names(episode))
        return Verdict(float(is_right), details)

    def _fits(self, expected: Expected, call: Call) -> bool:
        if expected.name != call.name:
            return False
        arguments = call.arguments
        if self.conform and isinstance(arguments, str):
            arguments = parse_arguments(arguments, as_python=True)  # NeMo Gym reads JSON in JSON
        if not isinstance(arguments, dict):
            return not expected.arguments
        found = {name: value for name, value in arguments.items() if name in expected.arguments}
        return self._equal(expected.arguments, found)
