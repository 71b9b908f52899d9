"""What is said in a conversation, whatever API says it: agents speak in these, each API's client translates them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asked for; `arguments` is JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Turn:
    """What somebody said.

    Attributes:
        role: Who.
        text: The message.
        reasoning: What the model thought before.
        calls: The calls that it made.
        call_id: With a tool's result: whose it is.
        native: What the server sent, message, blocks or items, to be sent back as it came; None for a turn that the
            agent wrote or changed itself.
        finish: Why the model's turn ended, in the API's own word.
        parts: The text is sent as a list of parts, as some frameworks do.
    """

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    native: list[dict[str, Any]] | None = field(default=None, compare=False)
    finish: str = ""
    parts: bool = False

    def changed(self, **fields: Any) -> Turn:
        """The turn as an agent has changed it: sent from its fields, no longer as it came."""
        return replace(self, native=None, **fields)


def system(text: str) -> Turn:
    """A system prompt."""
    return Turn("system", text)


def user(text: str, *, parts: bool = False) -> Turn:
    """What the user says."""
    return Turn("user", text, parts=parts)


def assistant(text: str) -> Turn:
    """What the model is to have said, but did not."""
    return Turn("assistant", text)


def result(call: ToolCall, text: str) -> Turn:
    """What a tool answered."""
    return Turn("tool", text, call_id=call.id)
