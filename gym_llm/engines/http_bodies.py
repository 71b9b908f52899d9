"""Request bodies for each API of a server, and responses made from its completions.

With `POST /v1/completions` prompt and answer are token ids, as vLLM serves them; the other two send the conversation.
"""

from __future__ import annotations

from typing import Any, cast

import orjson

from gym_llm.engines.engine_response import log_prob_entry, text_response
from gym_llm.engines.http_failures import parse_body
from gym_llm.errors import EngineError
from gym_llm.protocols.chat.completions import FINISH_REASONS
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.protocols.responses.token_fields import check_tokens
from gym_llm.records.failures import reason
from gym_llm.types import ROUTED_EXPERTS, TOKEN_FIELDS, TURN_FIELDS, Item, Request, ResponseDict, cached_tokens_of
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.limits import FEW, ITEMS, LIMITS, VALUES, count_values, limit
from gym_llm.utils.text import excerpt

_CHAT_ONLY = (
    *("messages", "tools", "tool_choice", "parallel_tool_calls", "logprobs", "top_logprobs", "reasoning_effort"),
    "chat_template_kwargs",
)


_LIMIT, _OLD_LIMIT = "max_completion_tokens", "max_tokens"


def chat_body(request: Request, *, old_limit: bool = False) -> dict[str, Any]:
    """The body of a chat in which the arguments of every call are a JSON object; `old_limit` names it `max_tokens`."""
    body = request_to_chat(request)
    if old_limit and _LIMIT in body:
        body[_OLD_LIMIT] = body.pop(_LIMIT)
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            if not _is_object(call["function"]["arguments"]):
                call["function"]["arguments"] = "{}"
    return body


def with_old_limit(body: bytes, status: int, message: str) -> bytes | None:
    """The body with `max_tokens`, if a server refused it with this message for its `max_completion_tokens`.

    >>> with_old_limit(b'{"max_completion_tokens": 9}', 400, "Unknown argument: max_completion_tokens").strip()
    b'{"max_tokens":9}'
    """
    if status not in (400, 422) or _LIMIT not in message or _LIMIT.encode() not in body:
        return None
    fields = parse_body(body)
    if _LIMIT not in fields:
        return None
    fields[_OLD_LIMIT] = fields.pop(_LIMIT)
    return dumps(fields)


def responses_body(request: Request) -> dict[str, Any]:
    """The body of a Responses request without our token fields: servers do not know them, and they are large."""
    items: Any = request["input"]
    if isinstance(items, list):  # the API also takes a string
        items = [
            item if "prompt_token_ids" not in item else {key: item[key] for key in item if key not in TURN_FIELDS}
            for item in cast("list[Item]", items)
        ]
    return {**request, "input": items}


def completion_body(request: Request, prompt: list[int], *, context: int | None = None) -> dict[str, Any]:
    """Return the body, without `model`, of a completion request for a prompt.

    A known `context` limits the number of tokens to what the prompt leaves of it. Without a limit servers sample 16
    tokens, and they refuse a limit above the context.

    >>> completion_body({"input": "Hi", "max_output_tokens": 9, "temperature": 0.0}, [5, 6])["max_tokens"]
    9
    """
    body = {name: value for name, value in request_to_chat(request).items() if name not in _CHAT_ONLY}
    limits = [body.pop("max_completion_tokens")] if "max_completion_tokens" in body else []
    if context is not None:
        limits.append(max(1, context - len(prompt)))
    if limits:
        body["max_tokens"] = min(limits)
    return {
        **body,
        "prompt": prompt,
        "logprobs": request.get("top_logprobs") or 0,  # 0: the sampled tokens' own
        "return_token_ids": True,
        "skip_special_tokens": False,
        "add_special_tokens": False,
    }


def completion_to_response(
    completion: dict[str, Any], *, model: str, prompt: list[int], text_log_probs: bool = False
) -> ResponseDict:
    """Return the response for a completion of a prompt: one message with the turn's tokens.

    With `text_log_probs` the text has log probabilities, too, as a request's `top_logprobs` and `include` ask.

    Raises:
        EngineError: If the body is not a completion, or has no token ids.
    """
    try:
        choice = completion["choices"][0]
        sampled, log_probs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
        if sampled is None or log_probs is None:
            raise EngineError(
                "The server gives no token ids for a completion (vLLM's `return_token_ids`): use api='chat'.",
                failure_kind="agent_run_error",
            )
        check_tokens([], sampled, log_probs)  # the prompt is our own
        if not isinstance(choice["text"], str):
            raise TypeError("its `text` is not a string")
        cut_by = FINISH_REASONS.get(choice.get("finish_reason"))
        experts = choice.get(ROUTED_EXPERTS)
        response = text_response(
            choice["text"],
            tokens=(prompt, sampled, log_probs),
            model=model,
            incomplete=cut_by,
            routed_experts=experts if isinstance(experts, str) else None,
        )
        details = (completion.get("usage") or {}).get("prompt_tokens_details") or {}
        if (cached := cached_tokens_of({"input_tokens_details": details})) and (counts := response.get("usage")):
            counts["input_tokens_details"] = {"cached_tokens": cached}
        if text_log_probs:
            tokens, likeliest = choice["logprobs"]["tokens"], choice["logprobs"].get("top_logprobs")
            response["output"][0]["content"][0]["logprobs"] = [
                log_prob_entry(token, log_prob, (likeliest[place] or {}).items() if likeliest else ())
                for place, (token, log_prob) in enumerate(zip(tokens, log_probs, strict=True))
            ]
        return response
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise EngineError(
            f"The server's reply is not a completion ({reason(error)}): {excerpt(completion)}",
            failure_kind="agent_run_error",
        ) from error


def checked_response(response: Any) -> ResponseDict:
    """Return a server's response unchanged, after checking it.

    Raises:
        EngineError: If the body is not a response, or its tokens are invalid.
    """
    if not isinstance(response, dict) or not isinstance(response.get("output"), list):
        problem = "it has no list `output`"
    elif (count := len(response["output"])) > FEW and count > limit(ITEMS):
        problem = f"it has {count:,} items; {limit(ITEMS):,} is the limit ({ITEMS})"
    elif _is_deep(response):
        problem = "it is nested too deeply"
    else:
        problem = next(filter(None, map(_problem, response["output"])), "")
    if problem:
        text = f"The server's answer is no response that can be used ({problem}): {excerpt(response)}"
        raise EngineError(text, failure_kind="agent_run_error")
    return cast(ResponseDict, response)


def _is_deep(value: Any) -> bool:
    """Whether a value is nested in more levels than a record is written with, which Python would have to walk down."""
    try:
        orjson.dumps([[value]])  # a record has it one level further down
    except TypeError as error:
        return "ecursion" in str(error)
    return False


def _problem(item: Any) -> str:
    """What is wrong with an item of a response; an empty string if nothing is."""
    if not isinstance(item, dict):
        return f"an item of its `output` is {excerpt(item, 80)}"
    tokens = [item.get(field) for field in TOKEN_FIELDS]
    if tokens != [None, None, None]:
        try:
            check_tokens(*tokens)
        except ValueError as error:
            return str(error)
    return ""


def _is_object(arguments: str) -> bool:
    if len(arguments) > LIMITS[VALUES].least and count_values(arguments, most := limit(VALUES)) > most:
        return False  # no tool took them
    try:
        return isinstance(orjson.loads(arguments), dict)
    except ValueError:
        return False
