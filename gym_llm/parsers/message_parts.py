"""What the parsing wrappers share: reading a message's text and putting new items in a message's place."""

from __future__ import annotations

from typing import Any

from gym_llm.types import TOKEN_FIELDS, Item


def is_message(item: Item) -> bool:
    """Whether an output item is a message, in the long form or the short one that needs no `type`."""
    kind = item.get("type")
    return kind == "message" or kind is None


def joined_text(content: str | list[dict[str, Any]]) -> str:
    """The text of a message's content, all text parts joined without a separator."""
    return content if isinstance(content, str) else "".join([part["text"] for part in content if is_text(part)])


def is_text(part: dict[str, Any]) -> bool:
    """Whether a content part has text (a refusal, for example, has not)."""
    return isinstance(part.get("text"), str)


def with_text(message: Item, text: str, *, number: int = 0) -> Item:
    """A message like this one that says only `text`, without the turn's tokens.

    Args:
        message: The message that is taken apart.
        text: What the new one says.
        number: 0 for the piece that keeps the message's id; another piece gets the id with this number added.
    """
    if isinstance(message["content"], str):
        content: Any = text
    else:
        content = [{"type": "output_text", "text": text, "annotations": []}]
    piece = {**message, "content": content}
    if number and piece.get("id") is not None:
        piece["id"] = f"{piece['id']}_{number}"
    for field in TOKEN_FIELDS:
        piece.pop(field, None)
    return piece


def reasoning_item(name: str | int, number: int, text: str, *, closed: bool = True) -> Item:
    """A reasoning item that is taken out of a message.

    Args:
        name: The message's id, or its place in the turn.
        number: How many were taken out of this message before.
        text: What was thought.
        closed: Whether the model came to the end of it.
    """
    return {
        "type": "reasoning",
        "id": f"rs_{name}_{number}" if number else f"rs_{name}",
        "summary": [{"type": "summary_text", "text": text}],
        "status": "completed" if closed else "incomplete",
    }


def hand_over_tokens(message: Item, pieces: list[Item]) -> None:
    """Put the tokens of a message on the last of the (new) items that take its place."""
    pieces[-1].update((field, message[field]) for field in TOKEN_FIELDS if field in message)
