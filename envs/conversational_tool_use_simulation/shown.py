"""Texts in which the simulators and the judge see a conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from gym_llm.envs.conversational_tool_use_simulation.conversation import Step, ToolDefinition
from gym_llm.types import Item


class Scenario(BaseModel):
    """A customer and their wish.

    Attributes:
        customer_persona: Their character.
        reason_for_contact: Why they write.
        customer_details: What they know.
        unknown_info: What they do not know.
        task_instructions: What they do.
        representative_domain: Where the representative works.
        outside_policy_scope: Whether the policy wants them transferred to another agent.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    customer_persona: str = ""
    reason_for_contact: str = ""
    customer_details: str = ""
    unknown_info: str | None = None
    task_instructions: str = ""
    representative_domain: str | None = None
    outside_policy_scope: bool | None = None

    def text(self, *, with_domain: bool = False) -> str:
        """Return the scenario as a text; with the representative's domain for the one who plays the customer."""
        parts = [
            ("The customer", self.customer_persona),
            ("The representative's domain", self.representative_domain if with_domain else None),
            ("Why they contact the representative", self.reason_for_contact),
            ("Details", self.customer_details),
            ("What they do not know", self.unknown_info),
            ("What they are to do", self.task_instructions),
        ]
        return "\n".join(f"{title}: {text}" for title, text in parts if text)


def tools_text(tools: Iterable[ToolDefinition]) -> str:
    """Return the tools' definitions, with the schemas of arguments and results."""
    return "\n\n".join(
        f"<tool>\nName: {tool.name}\nWhat it does: {tool.about}\nArguments (JSON Schema): {json.dumps(tool.takes)}\n"
        f"Result (JSON Schema): {json.dumps(tool.returns)}\n</tool>"
        for tool in tools
    )


def step_text(step: Step) -> str:
    """Return a step for the judge.

    >>> print(step_text(Step("user", "text", "Hello?")))
    <message>
    From: customer
    Hello?
    </message>
    """
    if step.type == "text":
        sender = "customer" if step.source == "user" else "representative"
        return f"<message>\nFrom: {sender}\n{step.content}\n</message>"
    if step.type == "tool_call":
        called = f"Tool: {step.tool_name}\nArguments: {step.arguments}"
        return f"<execute_tool>\nId: {step.call_id}\n{called}\n</execute_tool>"
    return f"<tool_result>\nId: {step.call_id}\n{step.content}\n</tool_result>"


def steps_text(steps: Sequence[Step]) -> str:
    """Return steps for the judge, in order."""
    return "\n\n".join(map(step_text, steps))


def messages_to_customer(steps: Sequence[Step]) -> list[Item]:
    """Return the messages for the one who plays the customer: the representative's are the "user"'s."""
    names = {"user": ("assistant", "Customer"), "agent": ("user", "Representative")}
    shown = [(*names[step.source], step.content) for step in steps if step.type == "text"]
    return [_message(role, f"{name}: {text}") for role, name, text in shown]


def messages_to_tool(steps: Sequence[Step], call: Step) -> list[Item]:
    """Return the messages for the one who plays the tools: each call with what was said since the last, and its result.

    Args:
        steps: The conversation so far.
        call: The call to be answered.
    """
    messages: list[Item] = []
    said: list[str] = []
    calls = {step.call_id: step for step in steps if step.type == "tool_call"}
    for step in steps:
        if step.type == "text":
            tag = "customer" if step.source == "user" else "representative"
            said.append(f"<{tag}>\n{step.content}\n</{tag}>")
        elif step.type == "tool_execution" and step.call_id in calls:
            messages.append(_message("user", _asked(said, calls[step.call_id])))
            messages.append(_message("assistant", step.content))
            said = []
    return [*messages, _message("user", _asked(said, call))]


def _asked(said: list[str], call: Step) -> str:
    conversation = "<conversation>\n" + "\n\n".join(said) + "\n</conversation>\n\n" if said else ""
    return f"{conversation}Tool: {call.tool_name}\nArguments: {call.arguments}"


def _message(role: str, text: str) -> Item:
    return {"type": "message", "role": role, "content": text}
