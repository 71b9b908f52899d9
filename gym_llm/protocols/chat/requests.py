"""Responses requests <-> the bodies of chat requests; see `gym_llm.protocols.chat.completions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.chat_messages import MALFORMED, items_of, messages_of
from gym_llm.types import Request
from gym_llm.utils.text import excerpt

LOGPROBS = "message.output_text.logprobs"
"""The value of `include` with which a Responses request asks for log probabilities."""


def request_to_chat(request: Request) -> dict[str, Any]:
    """Return a Responses request as the body of `POST /v1/chat/completions`, without `model`.

    `developer` messages become `system` messages: OpenAI treats them alike, and the chat templates of most open models
    know only `system`. The token limit becomes `max_completion_tokens`: OpenAI's reasoning models refuse the older
    `max_tokens` (`HTTPEngine` sends that to servers that know only it). Null parameters are left out, as are
    `tool_choice` and `parallel_tool_calls` without tools (OpenAI refuses them). Unknown parameters pass through. The
    request is not changed; the body, a fresh dict, shares its values.

    Raises:
        EngineError: If the request is invalid or a chat cannot express it. Examples are an item of an unknown type, and
            history on a server (`previous_response_id`).

    >>> request_to_chat({"input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]})
    {'messages': [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}]}
    """
    try:
        return _chat_of(request)
    except MALFORMED as error:
        raise EngineError(f"This is not a Responses request ({type(error).__name__}): {excerpt(request)}") from error


def chat_to_request(body: dict[str, Any]) -> Request:
    """The Responses request that asks the same as the body of `POST /v1/chat/completions`; `model` is left out.

    Its `input` is a list of items without ids. The body is not changed; the request, a fresh dict, shares its values.

    Raises:
        ValueError: If `messages` is not a list of chat messages, or a parameter has the wrong form.

    >>> chat_to_request({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9})
    {'input': [{'role': 'user', 'content': 'Hi'}], 'max_output_tokens': 9}
    """
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list):
        raise ValueError(f"`messages` is {type(messages).__name__}; a chat has a list of messages there.")
    key, value = "messages", messages
    try:
        request: dict[str, Any] = {"input": items_of(messages)}
        for key, value in body.items():
            if value is not None:
                _FROM_CHAT.get(key, dict.__setitem__)(request, key, value)
        if request.get("top_logprobs"):
            request.pop("include", None)  # the one asks for the other
    except ValueError:
        raise
    except MALFORMED as error:
        raise ValueError(f"`{key}` is invalid in a chat ({error!r}): {excerpt(value, 80)}.") from error
    return request  # type: ignore[return-value]


def _chat_of(request: Request) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if request.get("instructions") is not None:
        messages.append({"role": "system", "content": request["instructions"]})
    items: Any = request.get("input", [])
    if isinstance(items, str):
        messages.append({"role": "user", "content": items})
    else:
        messages.extend(messages_of(items))
    body: dict[str, Any] = {"messages": messages}
    for key, value in request.items():
        if value is not None:
            _TO_CHAT.get(key, dict.__setitem__)(body, key, value)
    if "tools" not in body:
        body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)
    return body


def _tool_to_chat(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function" or "function" in tool:
        return tool
    return _nested(tool, "function")


def _nested(fields: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"type": kind, kind: {key: value for key, value in fields.items() if key != "type"}}


def _tool_from_chat(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", **tool["function"]} if tool.get("type") == "function" and "function" in tool else tool


def _tool_choice_to_chat(choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "allowed_tools" and "tools" in choice:
        tools = [_tool_to_chat(tool) for tool in choice["tools"]]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode", "auto"), "tools": tools}}
    return _tool_to_chat(choice)


def _tool_choice_from_chat(choice: Any) -> Any:
    """The inverse of `_tool_choice_to_chat`."""
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "allowed_tools" and "allowed_tools" in choice:
        tools = [_tool_from_chat(tool) for tool in choice["allowed_tools"]["tools"]]
        return {"type": "allowed_tools", **choice["allowed_tools"], "tools": tools}
    return _tool_from_chat(choice)


def _set_tools(body: dict[str, Any], _: str, tools: list[dict[str, Any]]) -> None:
    if tools:  # OpenAI refuses an empty list.
        body["tools"] = [_tool_to_chat(tool) for tool in tools]


def _set_text(body: dict[str, Any], _: str, text: dict[str, Any]) -> None:
    form = text.get("format")
    if form is not None:
        body["response_format"] = _nested(form, "json_schema") if form.get("type") == "json_schema" else form
    body.update((key, value) for key, value in text.items() if key != "format" and value is not None)


def _set_response_format(request: dict[str, Any], _: str, response_format: dict[str, Any]) -> None:
    if response_format.get("type") == "json_schema":
        response_format = {"type": "json_schema", **response_format["json_schema"]}
    request.setdefault("text", {})["format"] = response_format


def _set_reasoning(body: dict[str, Any], _: str, reasoning: dict[str, Any]) -> None:
    if reasoning.get("effort") is not None:
        body["reasoning_effort"] = reasoning["effort"]


def _refuse_history(body: dict[str, Any], name: str, value: Any) -> None:
    raise EngineError(
        "Chat Completions has no `previous_response_id`, `conversation` or `prompt`: give all items in `input`."
    )


def _drop(body: dict[str, Any], name: str, value: Any) -> None:
    """Leave a parameter out: it is said elsewhere, or does not change what the model answers."""


_Setter = Callable[[dict[str, Any], str, Any], None]
"""Puts a parameter, name and value, into the other kind of body; one without a setter goes there as it is."""

_TO_CHAT: dict[str, _Setter] = {
    **dict.fromkeys(("input", "instructions", "model", "background", "max_tool_calls", "truncation"), _drop),
    **dict.fromkeys(("previous_response_id", "conversation", "prompt"), _refuse_history),
    "include": lambda body, _, include: body.update(logprobs=True) if LOGPROBS in include else None,
    "tools": _set_tools,
    "tool_choice": lambda body, _, choice: body.update(tool_choice=_tool_choice_to_chat(choice)),
    "max_output_tokens": lambda body, _, limit: body.update(max_completion_tokens=limit),
    "top_logprobs": lambda body, _, count: body.update(logprobs=True, top_logprobs=count),
    "reasoning": _set_reasoning,
    "text": _set_text,
}

_FROM_CHAT: dict[str, _Setter] = {
    "messages": _drop,
    "model": _drop,
    "tools": lambda request, _, tools: request.update(tools=[_tool_from_chat(tool) for tool in tools]),
    "tool_choice": lambda request, _, choice: request.update(tool_choice=_tool_choice_from_chat(choice)),
    "max_tokens": lambda request, _, limit: request.setdefault("max_output_tokens", limit),
    "max_completion_tokens": lambda request, _, limit: request.update(max_output_tokens=limit),
    "logprobs": lambda request, _, flag: request.update(include=[LOGPROBS]) if flag else None,
    "reasoning_effort": lambda request, _, effort: request.update(reasoning={"effort": effort}),
    "response_format": _set_response_format,
    "verbosity": lambda request, _, verbosity: request.setdefault("text", {}).update(verbosity=verbosity),
}
