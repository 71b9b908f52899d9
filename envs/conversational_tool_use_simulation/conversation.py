"""Conversation: the steps of a customer, a representative and the representative's tools, and their faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from gym_llm.errors import DataError
from gym_llm.grading.json_schema import json_schema
from gym_llm.types import Item
from gym_llm.utils.json_codec import loads

STOP, TRANSFER = "###STOP###", "###TRANSFER###"
MESSAGE_GENERATION_ERROR = "message_generation_error"
INVALID_CALL = "invalid_agent_tool_call"
VERIFICATION_ERROR = "verification_generation_error"
AGENT_FAILURE, USER_FAILURE, TOOL_FAILURE = "agent_failure", "user_failure", "tool_failure"
Source = Literal["user", "agent", "environment"]
_MOST_SLOW = 4_000  # characters that are checked with regular expressions, or item by item


class ToolDefinition(BaseModel):
    """A tool of the representative; NeMo Gym's rows call its parts `doc` and `params`, too."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    description: str | None = None
    doc: str | None = None
    parameters: dict[str, Any] | None = None
    params: dict[str, Any] | None = None
    returns: dict[str, Any] | None = None
    strict: bool = True

    @field_validator("parameters", "params", "returns")
    @classmethod
    def _is_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            json_schema(schema)
        return schema

    @property
    def about(self) -> str:
        """The description."""
        return self.doc if self.doc is not None else self.description or ""

    @property
    def takes(self) -> dict[str, Any] | None:
        """The schema of its arguments; None for any."""
        return self.params if self.params is not None else self.parameters

    @cached_property
    def function(self) -> dict[str, Any]:
        """The tool as a request offers it."""
        takes = self.takes if self.takes is not None else {"type": "object", "properties": {}}
        named = {"type": "function", "name": self.name, "description": self.about}
        return {**named, "parameters": takes, "strict": self.strict}


@dataclass(slots=True)
class Step:
    """A step: a message, a call, or a call's result.

    Attributes:
        source: Whose step it is; a call is the agent's, its result the environment's.
        type: `"text"`, `"tool_call"` or `"tool_execution"`.
        content: The message or the result.
        call_id: The call's id.
        tool_name: The called tool.
        arguments: The call's arguments as the model wrote them.
        is_refused: Whether the call did not reach the simulator: its result is an error of ours, and is not judged.
        reward: 1 or 0 by the judge; None if it was not judged.
        explanation: The judge's reason.
    """

    source: Source
    type: Literal["text", "tool_call", "tool_execution"]
    content: str = ""
    call_id: str = ""
    tool_name: str = ""
    arguments: str = ""
    is_refused: bool = False
    reward: int | None = None
    explanation: str | None = None


@dataclass(slots=True)
class Conversation:
    """A conversation under way.

    Attributes:
        tools: The tools by name.
        steps: All steps so far.
        terminal_state: `"complete"` if the customer ended it, `"incomplete"` if a fault did, else None.
        invalid_reasons: Why it cannot be scored, in NeMo Gym's words.
        failure_labels: Who was at fault.
        error: The fault as a sentence.
        evaluations: The judge's rewards for a party's work as a whole.
    """

    tools: dict[str, ToolDefinition]
    steps: list[Step] = field(default_factory=list)
    terminal_state: Literal["complete", "incomplete"] | None = None
    invalid_reasons: list[str] = field(default_factory=list)
    failure_labels: list[str] = field(default_factory=list)
    error: str | None = None
    evaluations: list[Step] = field(default_factory=list)

    def fail(self, reason: str, label: str, error: str) -> None:
        """End the conversation by a fault."""
        if reason not in self.invalid_reasons:
            self.invalid_reasons.append(reason)
        if label not in self.failure_labels:
            self.failure_labels.append(label)
        self.terminal_state, self.error = "incomplete", error

    def customer_says(self, text: str) -> None:
        """Add a message of the customer, which may end the conversation; not with the first one."""
        is_end = STOP in text or TRANSFER in text
        is_first = not self.steps
        self.steps.append(Step("user", "text", text))
        if is_end and is_first:
            self.fail("invalid_user_message", USER_FAILURE, "The customer ended the conversation as it began.")
        elif is_end:
            self.terminal_state = "complete"

    def call_error(self, call: Item) -> str | None:
        """Return what is wrong with a call's name or arguments; None for a valid one."""
        tool = self.tools.get(call["name"])
        if tool is None:
            known = ", ".join(self.tools)
            return f"There is no tool named {call['name'][:100]!r}; the tools are: {known}."
        if tool.takes is None:
            return None
        error = _problem(tool.takes, call["arguments"])
        return None if error is None else f"The arguments of {tool.name} {error}"

    def result_error(self, tool_name: str, result: str) -> str | None:
        """Return what is wrong with a simulated result; None if it is JSON that fits the tool's `returns`."""
        returns = self.tools[tool_name].returns
        if returns is None:
            return None
        if result.strip().startswith("```json"):
            result = unfenced(result)
        error = _problem(returns, result)
        return None if error is None else f"The results of {tool_name} {error}"

    def pending_calls(self) -> list[Step]:
        """Return the calls without a result, in order."""
        answered = {step.call_id for step in self.steps if step.type == "tool_execution"}
        return [step for step in self.steps if step.type == "tool_call" and step.call_id not in answered]

    def resume(self, items: list[Item]) -> None:
        """Take over the conversation that a row begins with.

        Raises:
            DataError: If it is over already, or an item does not belong to a conversation.
        """
        calls: dict[str, Step] = {}
        for item in items:
            role, kind = item.get("role"), item.get("type", "message")
            if kind == "reasoning" or role in ("system", "developer"):
                continue
            if self.terminal_state is not None:
                raise DataError("The row's conversation goes on after its end.")
            if kind == "message" and role == "user":
                self.customer_says(text_of(item))
            elif kind == "message" and role == "assistant":
                self.steps.append(Step("agent", "text", text_of(item)))
            elif kind == "function_call" and item.get("call_id") not in calls:
                if error := self.call_error(item):
                    raise DataError(f"The row has a call that is wrong. {error}")
                call = Step("agent", "tool_call", "", item["call_id"], item["name"], item["arguments"])
                self.steps.append(call)
                calls[call.call_id] = call
            elif kind == "function_call_output" and (made := calls.get(item["call_id"])) in self.pending_calls():
                assert made is not None
                self.add_result(made, str(item["output"]))
            else:
                raise DataError(f"The row's input has a {kind} of the role {role!r} that fits no conversation.")
        if self.terminal_state is not None:
            raise DataError("The row's conversation is over.")

    def add_result(self, call: Step, result: str, *, is_refused: bool = False) -> None:
        """Add a call's result."""
        step = Step("environment", "tool_execution", result, call.call_id, call.tool_name, call.arguments, is_refused)
        self.steps.append(step)

    @property
    def is_transferred(self) -> bool:
        """Whether the customer said that they were transferred."""
        return any(TRANSFER in step.content for step in self.steps if step.source == "user")


def unfenced(text: str) -> str:
    """Return a text without the fence that NeMo Gym removes.

    >>> unfenced('```json{"a": 1}```')
    '{"a": 1}'
    """
    return text.strip().removeprefix("```json").removesuffix("```")


def text_of(item: Item) -> str:
    """Return the text of a message; its parts are joined with nothing."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _problem(schema: dict[str, Any], text: str) -> str | None:
    try:
        value = loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return "are not JSON." if text else "are missing."
    checked = json_schema(schema)
    if checked.may_be_slow and len(text) > _MOST_SLOW:
        return f"are longer than {_MOST_SLOW:,} characters."
    try:
        error = checked.first_error(value)
    except RecursionError:
        return "nest too deeply."
    return None if error is None else f"do not fit its schema: {error[:500]}"
