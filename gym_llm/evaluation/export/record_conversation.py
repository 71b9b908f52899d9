"""A record as a chat, which most formats are made of."""

from __future__ import annotations

from typing import Any

from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.types import Item, Rollout


def items_of_record(record: Rollout) -> tuple[list[Item], list[Item]]:
    """Return an episode's first items, and all items since."""
    given: Any = record.get("responses_create_params", {}).get("input", [])
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    return given, record.get("response", {}).get("output") or []  # type: ignore[typeddict-item]


def conversation(record: Rollout) -> dict[str, Any]:
    """An episode as the body of a chat: `messages`, and `tools` where there are any.

    An assistant's thoughts are its message's `reasoning_content`.

    Raises:
        EngineError: If it has an item that a chat has no words for.
    """
    given, said = items_of_record(record)
    params: dict[str, Any] = {**record.get("responses_create_params", {}), "input": [*given, *said]}
    chat = request_to_chat(params)  # type: ignore[arg-type]
    messages = [{name: part for name, part in message.items() if name != "reasoning"} for message in chat["messages"]]
    return {"messages": messages, **({"tools": chat["tools"]} if chat.get("tools") else {})}
