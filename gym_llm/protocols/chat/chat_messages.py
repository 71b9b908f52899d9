"""Responses items <-> chat messages; see `gym_llm.protocols.chat.completions`."""

from __future__ import annotations

import json
from typing import Any

from gym_llm.errors import EngineError
from gym_llm.types import Item

REASONING_SEPARATOR = "</think><think>"
"""Stands between the reasoning items of one turn, for which a chat message has one place.

Inside a template's `<think>…</think>` it makes blocks of their own again, and no block that `ReasoningParser` found has
it in its text.
"""

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors raised when a value from outside has the wrong shape."""


def messages_of(items: list[Item]) -> list[dict[str, Any]]:
    """The chat messages that say what the items of an input say; an EngineError where a chat has nothing for one."""
    messages: list[dict[str, Any]] = []
    turn: list[Item] = []
    for item in items:
        kind = item.get("type") or "message"
        if kind in ("reasoning", "function_call") or (kind == "message" and item.get("role") == "assistant"):
            turn.append(item)
            continue
        if turn:
            messages.extend(assistant_messages(turn))
            turn = []
        if kind == "message":
            role = item.get("role")
            message = {"role": "system" if role == "developer" else role}
            if role == "tool":  # a chat's own message
                message["tool_call_id"] = item.get("tool_call_id")
            messages.append({**message, "content": _content_to_chat(item.get("content"))})
        elif kind == "function_call_output":
            content = _content_to_chat(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
        else:
            raise EngineError(
                f"Chat Completions has no item of type {kind!r:.60}: leave it out, or use a Responses server."
            )
    messages.extend(assistant_messages(turn))
    return messages


def assistant_messages(turn: list[Item]) -> list[dict[str, Any]]:
    """The one assistant message of a model turn; none if the turn says nothing (hidden reasoning alone)."""
    content: list[dict[str, Any]] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in turn:
        kind = item.get("type")
        if kind == "reasoning":
            if parts := item.get("content"):
                thoughts.append("\n".join(part["text"] for part in parts))
            else:  # each summary is a thought of its own
                thoughts.extend(part["text"] for part in item.get("summary") or ())
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": as_text(item.get("arguments", ""))}
            calls.append({"id": item.get("call_id"), "type": "function", "function": function})
        else:
            parts = item.get("content")
            for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts or ():
                if part.get("type") == "refusal":
                    refusals.append(part["refusal"])
                else:
                    content.append(_part_to_chat(part))
            for call in item.get("tool_calls") or ():  # a chat's message among the items
                function = call["function"]
                calls.append({**call, "function": {**function, "arguments": as_text(function.get("arguments", ""))}})
    if not (content or thoughts or refusals or calls):
        return []
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if all(part.get("type") == "text" for part in content):
        # No separator: the parts are pieces of one text. Beside calls servers want null, elsewhere a string.
        text = "".join(part["text"] for part in content)
        message["content"] = text if content or not (calls or refusals) else None
    else:
        message["content"] = content
    if thoughts:
        # Both names: most chat templates and servers read `reasoning_content`, but vLLM 0.16 and later dropped it from
        # what it reads and takes `reasoning` (https://github.com/vllm-project/vllm/issues/38488).
        message["reasoning_content"] = message["reasoning"] = REASONING_SEPARATOR.join(thoughts)
    if refusals:
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = calls
    return [message]


def _content_to_chat(content: Any) -> Any:
    """A message's content or a tool's output: a string where one text says it all, else chat parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) and "type" in part for part in content):
        return "" if content is None else as_text(content)
    parts = [_part_to_chat(part) for part in content]
    if len(parts) == 1 and parts[0].get("type") == "text":
        return parts[0]["text"]
    return parts or ""


def _part_to_chat(part: dict[str, Any]) -> dict[str, Any]:
    """Return a content part for a chat; parts that have no other form in a chat are unchanged."""
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and part.get("image_url") is not None:
        image = {"url": part["image_url"]}
        if part.get("detail") is not None:
            image["detail"] = part["detail"]
        return {"type": "image_url", "image_url": image}
    if kind == "input_video":  # as vLLM and SGLang have it; OpenAI's chat has none
        url = part.get("video_url") or part.get("video")
        if not isinstance(url, str):
            raise EngineError('A video in a request is `{"type": "input_video", "video_url": URL}`: it has no URL.')
        return {"type": "video_url", "video_url": {"url": url}}
    if kind == "input_file":
        return {"type": "file", "file": {key: value for key, value in part.items() if key != "type"}}
    return part


def items_of(messages: list[dict[str, Any]]) -> list[Item]:
    """Return chat messages as items without ids; raise a ValueError if a message is invalid."""
    items: list[Item] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            items.extend(assistant_items(message))
        elif role == "tool":
            output = _content_from_chat(message.get("content"))
            items.append({"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": output})
        elif role in ("user", "system", "developer"):
            items.append({"role": role, "content": _content_from_chat(message.get("content"))})
        else:
            raise ValueError(
                f"A chat message has role system, developer, user, assistant or tool, but this one is {message!r:.80}."
            )
    return items


def assistant_items(message: dict[str, Any]) -> list[Item]:
    """The items of an assistant message, without ids, in the order reasoning, message, function calls.

    Raises:
        ValueError: If a field of the message is not what a chat has there.
    """
    items: list[Item] = []
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning:
        items.extend(
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]}
            for thought in as_text(reasoning).split(REASONING_SEPARATOR)
        )
    content = message.get("content")
    calls = message.get("tool_calls") or ()
    refusal = message.get("refusal")
    parts: list[dict[str, Any]] = []
    if isinstance(content, str):
        # Servers write "" for "nothing said" beside reasoning or calls; alone it is what the model said.
        if content or not (reasoning or calls or refusal):
            parts.append(output_text(content))
    elif isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or (part.get("type") == "text" and not isinstance(part.get("text"), str)):
                raise ValueError(f"A content part is an object, and `text` a string, but this one is {part!r:.80}.")
            parts.append(output_text(part["text"]) if part.get("type") == "text" else part)
    elif content is not None:
        raise ValueError(f"An assistant message's `content` is text, parts or null, not {content!r:.80}.")
    if refusal:
        parts.append({"type": "refusal", "refusal": refusal})
    if parts:
        items.append({"type": "message", "role": "assistant", "content": parts})
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ValueError(f"A tool call has a `function` with a `name`, but this one is {call!r:.80}.")
        arguments = function.get("arguments")
        items.append(
            {
                "type": "function_call",
                "call_id": call.get("id"),
                "name": function["name"],
                "arguments": "{}" if arguments is None else as_text(arguments),
            }
        )
    return items


def _content_from_chat(content: Any) -> Any:
    """The inverse of `_content_to_chat`."""
    if not isinstance(content, list):
        return "" if content is None else content
    parts: list[dict[str, Any]] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        needed = {"text": str, "image_url": dict, "video_url": dict, "file": dict}.get(kind or "")
        if kind is None or (needed is not None and not isinstance(part.get(kind), needed)):
            raise ValueError(
                f"A content part is an object with a `type` and what it names, but this one is {part!r:.80}."
            )
        if kind == "text":
            parts.append({"type": "input_text", "text": part["text"]})
        elif kind == "image_url":
            image = dict(part["image_url"])
            parts.append({"type": "input_image", "image_url": image.pop("url", None), **image})
        elif kind == "video_url":
            parts.append({"type": "input_video", "video_url": part["video_url"].get("url")})
        elif kind == "file":
            parts.append({"type": "input_file", **part["file"]})
        else:
            parts.append(part)
    return parts[0]["text"] if len(parts) == 1 and parts[0].get("type") == "input_text" else parts


def output_text(text: str) -> dict[str, Any]:
    """Return a text part of a model's message."""
    return {"type": "output_text", "text": text, "annotations": []}


def as_text(value: Any) -> str:
    """Return a string unchanged, and another value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
