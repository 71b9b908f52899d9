"""Responses <-> Chat Completions: requests and answers, both ways, as pure functions on plain dicts.

Most servers of open models speak Chat Completions (https://platform.openai.com/docs/api-reference/chat), often with
vLLM's additions: `reasoning_content` (or `reasoning`) in messages, token ids in choices. Converting there and back
keeps roles, texts, reasoning, calls, tool outputs, tools and sampling parameters to the character. A conversation comes
back identical if a chat can say it: its model turns are any number of reasoning items, then at most one message, then
any number of function calls. Anything else comes back in that form and says the same (the form is
tests/gym_llm/test_chat_round_trip.py's `normal`). What a chat has no place for is lost: in a request the items' `id`,
`status`, `annotations` and token fields, `reasoning.summary`, and whether a system message was `instructions` or a
developer's; the order of a turn's items where it is another one (one assistant message holds the whole turn).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_llm.chat.messages import as_text, assistant_items, assistant_messages, items_of, messages_of, output_text
from gym_llm.errors import EngineError
from gym_llm.types import Item, Request, ResponseDict, Usage

_LOGPROBS = "message.output_text.logprobs"
_FINISH_TO_REASON = {"length": "max_output_tokens", "content_filter": "content_filter", "abort": "abort"}
"""`abort` is vLLM's and SGLang's: the server was told to give the request up."""
_REASON_TO_FINISH = {reason: finish for finish, reason in _FINISH_TO_REASON.items()}


# Requests -----------------------------------------------------------------------------------------------------------


def request_to_chat(request: Request) -> dict[str, Any]:
    """The body of `POST /v1/chat/completions`, without `model`, that asks the same as a Responses request.

    `developer` messages become `system` messages: OpenAI takes the two for the same, and the chat templates of most
    open models know only `system`. The token limit becomes `max_completion_tokens`, which both OpenAI and vLLM accept
    (OpenAI's reasoning models refuse the older `max_tokens`). Reasoning goes into `reasoning_content` and once more
    into `reasoning`: which of the two is read depends on the server. Parameters that are null are left out, as are
    `tool_choice` and `parallel_tool_calls` when there are no tools (OpenAI refuses them). Parameters not known here
    pass through.

    Args:
        request: The request. `input` may also be a string. Not changed; the body shares its values.

    Returns:
        A fresh dict.

    Raises:
        EngineError: If the request has something that no chat can say: an item of an unknown type, or history that
            lies on a server (`previous_response_id`).

    >>> request_to_chat({"input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]})
    {'messages': [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}]}
    """
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
        if value is None:
            continue
        convert = _TO_CHAT.get(key)
        if convert is None:
            body[key] = value
        else:
            convert(body, value)
    if "tools" not in body:
        body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)
    return body


def chat_to_request(body: dict[str, Any]) -> Request:
    """The Responses request that asks the same as the body of `POST /v1/chat/completions`; `model` is left out.

    Args:
        body: The body. Not changed; the request shares its values.

    Returns:
        A fresh dict, its `input` a list of items without ids.

    Raises:
        ValueError: If `messages` is not a list of chat messages, or a parameter has the wrong form.

    >>> chat_to_request({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9})
    {'input': [{'role': 'user', 'content': 'Hi'}], 'max_output_tokens': 9}
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise ValueError(f"`messages` is {type(messages).__name__}; a chat has a list of messages there.")
    request: dict[str, Any] = {"input": items_of(messages)}
    try:
        for key, value in body.items():
            if value is None:
                continue
            convert = _FROM_CHAT.get(key)
            if convert is None:
                request[key] = value
            else:
                convert(request, value)
        if "top_logprobs" in request:
            request.pop("include", None)  # the one asks for the other
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"`{key}` is not what a chat has there ({error!r}): {value!r:.80}.") from error
    return request  # type: ignore[return-value]


def _tool_to_chat(tool: dict[str, Any]) -> dict[str, Any]:
    """A function tool in the chat's nested form; other kinds, and what is nested already, stay as they are."""
    if tool.get("type") != "function" or "function" in tool:
        return tool
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


def _tool_from_chat(tool: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `_tool_to_chat`."""
    return {"type": "function", **tool["function"]} if tool.get("type") == "function" and "function" in tool else tool


def _set_tool_choice(body: dict[str, Any], choice: Any) -> None:
    if isinstance(choice, dict):
        if choice.get("type") == "allowed_tools" and "tools" in choice:
            tools = [_tool_to_chat(tool) for tool in choice["tools"]]
            choice = {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode", "auto"), "tools": tools}}
        else:
            choice = _tool_to_chat(choice)
    body["tool_choice"] = choice


def _set_tool_choice_from_chat(request: dict[str, Any], choice: Any) -> None:
    if isinstance(choice, dict):
        if choice.get("type") == "allowed_tools" and "allowed_tools" in choice:
            allowed = choice["allowed_tools"]
            tools = [_tool_from_chat(tool) for tool in allowed["tools"]]
            choice = {"type": "allowed_tools", **allowed, "tools": tools}
        else:
            choice = _tool_from_chat(choice)
    request["tool_choice"] = choice


def _set_tools(body: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    if tools:  # OpenAI refuses an empty list.
        body["tools"] = [_tool_to_chat(tool) for tool in tools]


def _set_text(body: dict[str, Any], text: dict[str, Any]) -> None:
    for key, value in text.items():
        if key == "format" and value is not None:
            if value.get("type") == "json_schema":
                schema = {name: field for name, field in value.items() if name != "type"}
                body["response_format"] = {"type": "json_schema", "json_schema": schema}
            else:
                body["response_format"] = value
        elif value is not None:
            body[key] = value


def _set_response_format(request: dict[str, Any], response_format: dict[str, Any]) -> None:
    if response_format.get("type") == "json_schema":
        response_format = {"type": "json_schema", **response_format["json_schema"]}
    request.setdefault("text", {})["format"] = response_format


def _set_reasoning(body: dict[str, Any], reasoning: dict[str, Any]) -> None:
    if reasoning.get("effort") is not None:
        body["reasoning_effort"] = reasoning["effort"]


def _set_include(body: dict[str, Any], include: list[str]) -> None:
    if _LOGPROBS in include:
        body["logprobs"] = True


def _refuse_history(body: dict[str, Any], value: Any) -> None:
    raise EngineError(
        "A Chat Completions server keeps no history: give all items in `input` instead of `previous_response_id`, "
        "`conversation` or `prompt`."
    )


def _drop(body: dict[str, Any], value: Any) -> None:
    """Leave a parameter out: it is said elsewhere, or does not change what the model answers."""


_Setter = Callable[[dict[str, Any], Any], None]

_TO_CHAT: dict[str, _Setter] = {
    "input": _drop,
    "instructions": _drop,
    "model": _drop,
    "background": _drop,
    "max_tool_calls": _drop,
    "truncation": _drop,
    "previous_response_id": _refuse_history,
    "conversation": _refuse_history,
    "prompt": _refuse_history,
    "include": _set_include,
    "tools": _set_tools,
    "tool_choice": _set_tool_choice,
    "max_output_tokens": lambda body, limit: body.update(max_completion_tokens=limit),
    "top_logprobs": lambda body, count: body.update(logprobs=True, top_logprobs=count),
    "reasoning": _set_reasoning,
    "text": _set_text,
}

_FROM_CHAT: dict[str, _Setter] = {
    "messages": _drop,
    "model": _drop,
    "tools": lambda request, tools: request.update(tools=[_tool_from_chat(tool) for tool in tools]),
    "tool_choice": _set_tool_choice_from_chat,
    "max_tokens": lambda request, limit: request.setdefault("max_output_tokens", limit),
    "max_completion_tokens": lambda request, limit: request.update(max_output_tokens=limit),
    "logprobs": lambda request, wanted: request.update(include=[_LOGPROBS]) if wanted else None,
    "reasoning_effort": lambda request, effort: request.update(reasoning={"effort": effort}),
    "response_format": _set_response_format,
    "verbosity": lambda request, verbosity: request.setdefault("text", {}).update(verbosity=verbosity),
}


# Answers ------------------------------------------------------------------------------------------------------------


def chat_to_response(chat_completion: dict[str, Any], *, model: str | None = None) -> ResponseDict:
    """The response that a chat completion stands for.

    The first choice becomes a reasoning item, a message and function calls, as far as it has them; there is always at
    least one item. Ids are made from the completion's id, so the same completion gives the same response.
    vLLM's token ids (`return_token_ids`, with `logprobs`) go to the last item, if prompt ids, sampled ids and log
    probabilities are all there.

    Args:
        chat_completion: The body of the server's answer. Not changed.
        model: The model's name to record; None for the one that the server gives.

    Returns:
        A fresh dict.

    Raises:
        EngineError: If this is not a chat completion.

    >>> message = {"role": "assistant", "content": "4", "reasoning_content": "2+2"}
    >>> answer = {"id": "c1", "choices": [{"message": message, "finish_reason": "stop"}]}
    >>> [item["type"] for item in chat_to_response(answer)["output"]]
    ['reasoning', 'message']
    """
    try:
        return _convert_answer(chat_completion, model)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # What a server sends can be wrong in any place.
        raise EngineError(
            f"The server's answer is no chat completion ({type(error).__name__}: {error}): {chat_completion!r:.200}"
        ) from error


def _convert_answer(chat_completion: dict[str, Any], model: str | None) -> ResponseDict:
    """What `chat_to_response` does, with any error where the answer is malformed."""
    choice = chat_completion["choices"][0]
    completion_id = str(chat_completion.get("id") or "unknown")
    output = assistant_items(choice["message"])
    if not output:
        output = [{"type": "message", "role": "assistant", "content": [output_text("")]}]
    _identify(output, completion_id)
    reason = _FINISH_TO_REASON.get(choice.get("finish_reason"))
    if reason is not None and output[-1]["type"] != "reasoning":
        output[-1]["status"] = "incomplete"
    _attach_tokens(output, chat_completion, choice)
    return {
        "id": f"resp_{completion_id}",
        "object": "response",
        "created_at": float(chat_completion.get("created") or 0),
        "model": model if model is not None else str(chat_completion.get("model") or ""),
        "status": "completed" if reason is None else "incomplete",
        "output": output,
        "incomplete_details": None if reason is None else {"reason": reason},
        "usage": _usage_from_chat(chat_completion.get("usage")),
    }


def response_to_chat(response: ResponseDict) -> dict[str, Any]:
    """The chat completion that a response stands for: the inverse of `chat_to_response`.

    Args:
        response: One model turn. Not changed.

    Returns:
        A fresh dict. Token ids and log probabilities are where vLLM puts them, tokens written as `token_id:N` as
        vLLM does with `return_tokens_as_token_ids`.

    Raises:
        ValueError: If the output holds anything but reasoning, assistant messages and function calls.
    """
    output = response["output"]
    for item in output:
        kind = item.get("type") or "message"
        if kind not in ("reasoning", "function_call") and (kind != "message" or item.get("role") != "assistant"):
            raise ValueError(
                f"The response has an item of type {kind!r:.60} that is no part of one model turn in a chat; "
                "only reasoning, assistant messages and function calls are."
            )
    message = (assistant_messages(output) or [{"role": "assistant", "content": ""}])[0]
    reason = (response.get("incomplete_details") or {}).get("reason", "")
    finish_reason = _REASON_TO_FINISH.get(reason) or ("tool_calls" if "tool_calls" in message else "stop")
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    chat_completion: dict[str, Any] = {
        "id": response["id"].removeprefix("resp_"),
        "object": "chat.completion",
        "created": int(response.get("created_at", 0)),
        "model": response.get("model", ""),
        "choices": [choice],
        "usage": _usage_to_chat(response.get("usage")),
    }
    prompt_ids, token_ids, log_probs = _tokens_of(output)
    if prompt_ids is not None:
        chat_completion["prompt_token_ids"] = prompt_ids
        choice["token_ids"] = token_ids
        choice["logprobs"] = {
            "content": [
                {"token": f"token_id:{token}", "logprob": log_prob, "bytes": None, "top_logprobs": []}
                for token, log_prob in zip(token_ids, log_probs, strict=True)
            ]
        }
    for part in (part for item in output if isinstance(item.get("content"), list) for part in item["content"]):
        if part.get("logprobs") and (token_ids is None or len(part["logprobs"]) == len(token_ids)):
            choice["logprobs"] = {"content": part["logprobs"]}
    return chat_completion


def _tokens_of(output: list[Item]) -> tuple[Any, Any, Any]:
    """The three token fields of a turn's last item: all of them, or three times None."""
    last = output[-1] if output else {}
    prompt_ids, token_ids = last.get("prompt_token_ids"), last.get("generation_token_ids")
    log_probs = last.get("generation_log_probs")
    if prompt_ids is None or token_ids is None or log_probs is None or len(token_ids) != len(log_probs):
        return None, None, None
    return prompt_ids, token_ids, log_probs


def _identify(output: list[Item], completion_id: str) -> None:
    """Give fresh items ids made from the completion's, call ids where the server gave none, and a status."""
    calls = blocks = 0
    for item in output:
        if item["type"] == "reasoning":
            item["id"] = f"rs_{completion_id}_{blocks}" if blocks else f"rs_{completion_id}"
            blocks += 1
            continue
        if item["type"] == "message":
            item["id"] = f"msg_{completion_id}"
        else:
            item["id"] = f"fc_{completion_id}_{calls}"
            item["call_id"] = as_text(item["call_id"] or f"call_{completion_id}_{calls}")
            calls += 1
        item["status"] = "completed"


def _attach_tokens(output: list[Item], chat_completion: dict[str, Any], choice: dict[str, Any]) -> None:
    """Put the turn's token ids on its last item; log probabilities on its text, if there is more in them."""
    log_probs = (choice.get("logprobs") or {}).get("content")
    if log_probs is None:
        return
    token_ids = choice.get("token_ids")
    prompt_ids = choice.get("prompt_token_ids")
    if prompt_ids is None:
        prompt_ids = chat_completion.get("prompt_token_ids")
    if token_ids is not None and prompt_ids is not None and len(token_ids) == len(log_probs):
        output[-1]["prompt_token_ids"] = prompt_ids
        output[-1]["generation_token_ids"] = token_ids
        output[-1]["generation_log_probs"] = [entry["logprob"] for entry in log_probs]
        if not any(entry.get("top_logprobs") for entry in log_probs):
            return
    for item in output:
        if item["type"] == "message" and item["content"][0].get("type") == "output_text":
            item["content"][0]["logprobs"] = log_probs


def _usage_from_chat(usage: dict[str, Any] | None) -> Usage | None:
    """Token counts in the Responses API's names, None if the server counted nothing."""
    if not usage:
        return None
    input_tokens, output_tokens = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    converted: dict[str, Any] = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": usage.get("total_tokens") or input_tokens + output_tokens,
    }
    if usage.get("prompt_tokens_details") is not None:
        converted["input_tokens_details"] = usage["prompt_tokens_details"]
    if usage.get("completion_tokens_details") is not None:
        converted["output_tokens_details"] = usage["completion_tokens_details"]
    return converted  # type: ignore[return-value]


def _usage_to_chat(usage: Any) -> dict[str, Any] | None:
    """The inverse of `_usage_from_chat`."""
    if not usage:
        return None
    names = {
        "input_tokens": "prompt_tokens",
        "output_tokens": "completion_tokens",
        "total_tokens": "total_tokens",
        "input_tokens_details": "prompt_tokens_details",
        "output_tokens_details": "completion_tokens_details",
    }
    return {names[key]: value for key, value in usage.items() if key in names}
