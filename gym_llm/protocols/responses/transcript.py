"""Conversations for human eyes."""

from __future__ import annotations

import reprlib
from typing import Any

from gym_llm.types import Item

_short = reprlib.Repr()  # what we know nothing about may be huge, or nested deeper than repr can go
_short.maxdict = 20
_short.maxstring = _short.maxother = 200


def transcript(items: list[Item]) -> str:
    """A conversation as text: one paragraph an item, headed by who speaks.

    >>> print(transcript([{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]))
    user: 2+2?
    <BLANKLINE>
    assistant: 4
    """
    return "\n\n".join(map(_paragraph, items))


def _paragraph(item: Item) -> str:
    match item.get("type", "message"):
        case "message":
            return f"{item.get('role')}: {_text(item.get('content'))}"
        case "reasoning":
            return f"thinking: {_text(item.get('content')) or _text(item.get('summary'))}"
        case "function_call":
            return f"call: {item.get('name')}({item.get('arguments')})"
        case "function_call_output":
            return f"tool: {_text(item.get('output'))}"
        case other:
            return f"{other}: {_short.repr(item)}"


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(map(_part, content)) if isinstance(content, list) else _short.repr(content)


def _part(part: Any) -> str:
    if isinstance(part, dict):
        for field in ("text", "refusal"):
            if isinstance(text := part.get(field), str) and text:
                return text
        part = part.get("type")
    return f"[{part}]" if isinstance(part, str) else f"[{_short.repr(part)}]"
