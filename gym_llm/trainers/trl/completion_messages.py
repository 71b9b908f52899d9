"""Items from the messages that TRL samples."""

from __future__ import annotations

from typing import Any

from gym_llm.protocols.chat.chat_messages import items_of
from gym_llm.types import Item


def turn_items(message: dict[str, Any]) -> list[Item]:
    """The items of an assistant message that TRL made of what was sampled.

    TRL's calls have no ids. Where the model wrote something that no chat message may hold, it is the message's text.
    """
    try:
        calls = [
            {**call, "id": call.get("id") or f"call_{number}"}
            for number, call in enumerate(message.get("tool_calls") or (), 1)
        ]
        return items_of([{**message, "tool_calls": calls}])
    except (ValueError, TypeError, AttributeError):
        return [{"type": "message", "role": "assistant", "content": str(message.get("content", ""))}]
