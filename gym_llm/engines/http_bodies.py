"""What is posted to a server for a request, where the server's API sends the conversation itself."""

from __future__ import annotations

from typing import Any, cast

import orjson

from gym_llm.chat.requests import request_to_chat
from gym_llm.types import TOKEN_FIELDS, Item, Request


def chat_body(request: Request) -> dict[str, Any]:
    """The body of a chat in which the arguments of every call are a JSON object."""
    body = request_to_chat(request)
    body["messages"] = [_with_readable_arguments(message) for message in body["messages"]]
    return body


def responses_body(request: Request) -> dict[str, Any]:
    """The body of a Responses request without our token fields: servers do not know them, and they are large."""
    items: Any = request["input"]
    if isinstance(items, list):  # the API also takes a string
        items = [
            item if "prompt_token_ids" not in item else {key: item[key] for key in item if key not in TOKEN_FIELDS}
            for item in cast("list[Item]", items)
        ]
    return {**request, "input": items}


def _with_readable_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """A chat message in which the arguments of every call are a JSON object."""
    calls = message.get("tool_calls")
    if not calls or all(_is_object(call["function"]["arguments"]) for call in calls):
        return message
    readable = [
        call
        if _is_object(call["function"]["arguments"])
        else {**call, "function": {**call["function"], "arguments": "{}"}}
        for call in calls
    ]
    return {**message, "tool_calls": readable}


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(orjson.loads(arguments), dict)
    except ValueError:
        return False
