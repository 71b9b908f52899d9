"""LitmusAgent: a number, a yes or no, or a word, found in the answer and compared (NeMo Gym's `litmus_agent`)."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.tasks import TaskKind
from gym_llm.envs.litmus_agent.reading import FORMATS, in_format, last_capture, last_in_format, read_bool, read_number
from gym_llm.grading.quotations import meant_words
from gym_llm.grading.text_metrics import in_worker
from gym_llm.sandbox.python_tool import PythonTool
from gym_llm.types import Row, known

REGEX_DEADLINE = 2.0  # seconds of CPU time; only a pattern that backtracks without end needs more
AnswerType = Literal["float", "bool", "string"]
RuleName = Literal["exact", "isclose", "abs_window", "rel_window", "bool_eq", "string_eq"]
Tolerance = Annotated[float, Field(ge=0)]
_TYPE_OF_PROPERTY: dict[Any, AnswerType] = {
    "float": "float",
    "count": "float",
    "fragment": "float",
    "bool": "bool",
    "presence": "bool",
}
_RULE_OF_TYPE: dict[AnswerType, RuleName] = {"float": "isclose", "bool": "bool_eq", "string": "string_eq"}


class Match(BaseModel):
    """The rules of a row to compare its answer."""

    model_config = ConfigDict(extra="allow", frozen=True)

    rule: RuleName
    rel_tol: Tolerance | None = None
    abs_tol: Tolerance | None = None


class LitmusAgent(PythonTool, NemoCompatible):
    """Answer with a value in the asked form; the reward is 1.0 if it is the expected one by the row's rule.

    A row that declares the tool `stateful_python_code_exec` lets the model run Python. Details: `predicted_value` and
    `abs_error` where there are such, `correct`, `resolved_answer_type`, `resolved_reward_rule`, `use_box_format`,
    `num_tool_calls`, `tool_timeout_count`.

    Args:
        float_rel_tol: Relative tolerance where a row names none.
        float_abs_tol: Absolute tolerance where a row names none.
        code_exec_tool_name: What rows call the Python tool.
        conform: `"nemo"` reads numbers as NeMo Gym does, where it is wrong; the README says where.
        **kwargs: As for every `PythonTool`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    accepted_findings = {"non-answer/1/0": "the last number of an answer counts, and a 0 is a no"}
    metrics = {**PythonTool.metrics, "abs_error": Metric("median", higher_is_better=False)}

    class Task(BaseTask):
        """The expected answer, where the model's is found, and how the two are compared."""

        expected_answer: str | float | int
        answer_type: AnswerType | None = None
        property_type: Any = None
        output_regex: str | None = None
        answer_format: str | None = None
        use_box_format: bool = False
        match: Match | None = None

        @field_validator("output_regex")
        @classmethod
        def _has_one_group(cls, pattern: str | None) -> str | None:
            try:
                groups = 1 if pattern is None else re.compile(pattern, re.DOTALL).groups
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
            if groups != 1:
                raise ValueError(f"{pattern!r} has {groups} groups, and should have one: the answer")
            return pattern

        @field_validator("answer_format")
        @classmethod
        def _is_known(cls, name: str | None) -> str | None:
            if name and name not in FORMATS:
                raise ValueError(f"{name!r} is not one of {', '.join(FORMATS)}")
            return name

        @model_validator(mode="after")
        def _comparable(self) -> LitmusAgent.Task:
            if self.answer_type is None and self.property_type not in list(_TYPE_OF_PROPERTY):
                names = ", ".join(_TYPE_OF_PROPERTY)
                raise ValueError(
                    f"answer_type is missing, and property_type {self.property_type!r} is not one of {names}"
                )
            if self.rule != "string_eq" and self.number is None:
                raise ValueError(f"expected_answer {self.expected_answer!r} cannot be compared by the rule {self.rule}")
            return self

        @cached_property
        def type(self) -> AnswerType:
            """The kind of the expected answer."""
            return self.answer_type or _TYPE_OF_PROPERTY[self.property_type]

        @property
        def format(self) -> str:
            """The name of the answer's format."""
            return self.answer_format or ("fmt_07" if self.use_box_format else "fmt_00")

        @cached_property
        def is_legacy(self) -> bool:
            """Whether the row is of before there were answer types: it is compared as a rounded number then."""
            return self.answer_type is None and self.property_type != "float"

        @cached_property
        def rule(self) -> RuleName:
            """The rule of comparison."""
            return self.match.rule if self.match else "exact" if self.is_legacy else _RULE_OF_TYPE[self.type]

        @cached_property
        def number(self) -> float | None:
            """The expected answer as a number; None if it is not finite."""
            if self.rule == "bool_eq":
                return read_bool(str(self.expected_answer))
            try:
                value = float(self.expected_answer)
            except (ValueError, OverflowError):
                return None
            return value if math.isfinite(value) else None

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        float_rel_tol: float = 1e-6,
        float_abs_tol: float = 1e-6,
        code_exec_tool_name: str = PythonTool.python_tool,
        code_exec_timeout_s: float = 120.0,
        **kwargs: Any,
    ) -> None:
        for name, value in (("float_rel_tol", float_rel_tol), ("float_abs_tol", float_abs_tol)):
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name} is a number, 0 or more; got {value!r}.")
        if not isinstance(code_exec_tool_name, str) or not code_exec_tool_name:
            raise ValueError(f"code_exec_tool_name is a tool's name, got {code_exec_tool_name!r}.")
        super().__init__(tasks, code_exec_timeout_s=code_exec_timeout_s, **kwargs)
        if code_exec_tool_name != self.python_tool:
            own: Any = self  # the class keeps its tool's name
            own._tools = {code_exec_tool_name: self._tools[self.python_tool]}
            self.python_tool = code_exec_tool_name
        self._tolerances = (float_rel_tol, float_abs_tol)
        self._thousands = self.conform is None

    def task_kind(self) -> TaskKind:
        """A row, with the Python tool if the row declares it."""
        return super().task_kind()._replace(tools=list)

    def oracle(self, task: Task) -> str | None:
        """Return the expected answer in the row's format; None if the row has a pattern of its own."""
        return None if task.output_regex else in_format(str(task.expected_answer), task.format)

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Find the answer in the model's messages and compare it."""
        text = episode.messages_text if self.conform else meant_words(episode.messages_text, episode)
        if task.output_regex is not None:
            return self._verify_with_regex(task, task.output_regex, text, episode)
        return self._verdict(task, last_in_format(text, task.format, meant=not self.conform), episode)

    async def _verify_with_regex(self, task: Task, pattern: str, text: str, episode: Episode) -> Verdict:
        function = f"{last_capture.__module__}:{last_capture.__name__}"
        said = await in_worker(function, (pattern, text), REGEX_DEADLINE)
        return self._verdict(task, said, episode)

    def _verdict(self, task: Task, said: str | None, episode: Episode) -> Verdict:
        value = None if said is None else self._read(task, said)
        correct = value is not None and self._is_right(task, value)
        details: dict[str, Any] = {
            "correct": correct,
            "resolved_answer_type": task.type,
            "resolved_reward_rule": task.rule,
            "use_box_format": task.use_box_format,
            **self.tool_use(episode),
        }
        if isinstance(value, str):
            details["predicted_value"] = value
        else:
            number = value if value is not None and math.isfinite(value) else None
            details |= known(predicted_value=number, abs_error=self._error(task, value))
        return Verdict(float(correct), details)

    def _error(self, task: Task, value: float | str | None) -> float | None:
        """How far off a number is; None where the answer is none that is measured."""
        measured = task.type == "float" if task.property_type is None else task.property_type in ("float", "count")
        try:
            error = abs(float(value) - float(task.expected_answer)) if measured and value is not None else math.nan
        except (ValueError, OverflowError):
            return None
        return error if math.isfinite(error) else None

    def _read(self, task: Task, said: str) -> float | str | None:
        if task.type == "string":
            return said
        read = read_bool if task.type == "bool" and not task.is_legacy else read_number
        return read(said, thousands=self._thousands)

    def _is_right(self, task: Task, value: float | str) -> bool:
        if task.rule == "string_eq":
            return _normal(value) == _normal(task.expected_answer)
        number = read_number(value, thousands=self._thousands) if isinstance(value, str) else value
        expected = task.number
        if number is None or expected is None or not math.isfinite(number):
            return False
        relative, absolute = self._tolerances
        if task.match:
            relative = relative if task.match.rel_tol is None else task.match.rel_tol
            absolute = absolute if task.match.abs_tol is None else task.match.abs_tol
        match task.rule:
            case "exact":
                return round(number) == round(expected)
            case "isclose":
                return math.isclose(number, expected, rel_tol=relative, abs_tol=absolute)
            case "abs_window":
                return abs(number - expected) <= absolute
            case "rel_window":
                return abs(number - expected) <= abs(relative * expected)
            case _:
                return number == expected


def _normal(value: object) -> str:
    return " ".join(str(value).lower().split())
