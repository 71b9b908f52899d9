"""Convert answers between Responses and Chat Completions, as pure functions on plain dicts; see `requests.py`, too.

Most servers of open models speak Chat Completions (https://platform.openai.com/docs/api-reference/chat), often with
vLLM's additions: `reasoning_content` (or `reasoning`) in messages, token ids in choices. Converting there and back
keeps roles, texts, reasoning, calls, tool outputs, tools and sampling parameters to the character.

In a chat, each model turn has any number of reasoning items, then at most one message, then any number of function
calls. A conversation of this form comes back identical; any other one comes back in this form. Some information is
lost:

- the items' `id`, `status`, `annotations` and token fields, and `reasoning.summary`;
- the difference between `instructions` and a developer's message;
- another order of a turn's items.
"""

from __future__ import annotations

import hashlib
from typing import Any

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.chat_messages import (
    MALFORMED,
    REASONING_SEPARATOR,
    as_text,
    assistant_items,
    assistant_messages,
    output_text,
)
from gym_llm.protocols.responses.token_fields import check_tokens
from gym_llm.records.failures import reason
from gym_llm.types import CONSTRAINED, ROUTED_EXPERTS, TOKEN_FIELDS, WEIGHT_VERSIONS, Item, ResponseDict, Usage
from gym_llm.utils.limits import FEW, ITEMS, limit
from gym_llm.utils.text import excerpt

FINISH_REASONS = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
    "abort": "abort",
    "repetition": "repetition",
}
"""The `incomplete_details.reason` of the Responses API for each `finish_reason` of a turn that was cut off.

`abort` (vLLM and SGLang): the server was told to abort the request; `repetition`: vLLM stopped a loop.
"""
MAX_ID = 256
"""The longest id that is taken over, in characters: each item has its completion's id in its own."""

_USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "total_tokens": "total_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
_REASON_TO_FINISH = {reason: finish for finish, reason in FINISH_REASONS.items()}


def chat_to_response(chat_completion: dict[str, Any], *, model: str | None = None) -> ResponseDict:
    """Convert a chat completion to a response.

    The first choice becomes a reasoning item, a message and function calls, as far as it has them; there is always at
    least one item. The items' ids come from the completion's id, or from its digest if it is longer than `MAX_ID`. So
    the same completion gives the same response.

    vLLM's token ids (`return_token_ids`, with `logprobs`) go to the last item, if prompt ids, sampled ids and log
    probabilities are all there. `model` is the name to record; None for the server's name.

    Raises:
        EngineError: If this is not a chat completion, has more calls or parts than `gym_llm.utils.limits` allows, or
            has invalid tokens (`gym_llm.protocols.responses.token_fields`).

    >>> message = {"role": "assistant", "content": "4", "reasoning_content": "2+2"}
    >>> answer = {"id": "c1", "choices": [{"message": message, "finish_reason": "stop"}]}
    >>> [item["type"] for item in chat_to_response(answer)["output"]]
    ['reasoning', 'message']
    """
    try:
        choice = chat_completion["choices"][0]
        completion_id = _short(chat_completion.get("id") or "unknown")
        _check_size(choice["message"])
        output = assistant_items(choice["message"])
        if not output:
            output = [{"type": "message", "role": "assistant", "content": [output_text("")]}]
        _identify(output, completion_id)
        cut_by = FINISH_REASONS.get(choice.get("finish_reason"))
        if cut_by is not None and output[-1]["type"] != "reasoning":
            output[-1]["status"] = "incomplete"
        _attach_tokens(output, chat_completion, choice)
        return {
            "id": f"resp_{completion_id}",
            "object": "response",
            "created_at": float(chat_completion.get("created") or 0),
            "model": model if model is not None else str(chat_completion.get("model") or ""),
            "status": "completed" if cut_by is None else "incomplete",
            "output": output,
            "incomplete_details": None if cut_by is None else {"reason": cut_by},
            "usage": _usage_from_chat(chat_completion.get("usage")),
        }
    except MALFORMED as error:
        why = f"no {error}" if isinstance(error, KeyError) else reason(error)
        raise EngineError(
            f"The server's answer is not a chat completion ({why}): {excerpt(chat_completion)}",
            failure_kind="agent_run_error",
        ) from error


def response_to_chat(response: ResponseDict) -> dict[str, Any]:
    """Return the chat completion of a response with one model turn: the inverse of `chat_to_response`.

    Token ids and log probabilities are where vLLM puts them, with tokens written as `token_id:N`, as vLLM does with
    `return_tokens_as_token_ids`. `gym_llm.types.CONSTRAINED` and
    `WEIGHT_VERSIONS` are beside the ids.

    Raises:
        ValueError: If the response is invalid, or its output has anything but reasoning, assistant messages and
            function calls.
    """
    try:
        return _chat_of(response)
    except ValueError:
        raise
    except MALFORMED as error:
        raise ValueError(f"This is not a response ({reason(error)}): {excerpt(response)}") from error


def _chat_of(response: ResponseDict) -> dict[str, Any]:
    output = response["output"]
    for item in output:
        kind = item.get("type") or "message"
        if kind not in ("reasoning", "function_call") and (kind != "message" or item.get("role") != "assistant"):
            raise ValueError(
                f"An item of type {kind!r:.60} cannot be in a model turn of a chat: give reasoning, messages and calls."
            )
    message = (assistant_messages(output) or [{"role": "assistant", "content": ""}])[0]
    reason = (response.get("incomplete_details") or {}).get("reason", "")
    usage: Any = response.get("usage") or None
    finish_reason = _REASON_TO_FINISH.get(reason) or ("tool_calls" if "tool_calls" in message else "stop")
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    chat_completion: dict[str, Any] = {
        "id": response["id"].removeprefix("resp_"),
        "object": "chat.completion",
        "created": int(response.get("created_at", 0)),
        "model": response.get("model", ""),
        "choices": [choice],
        "usage": usage and {_USAGE[key]: value for key, value in usage.items() if key in _USAGE},
    }
    last = output[-1] if output else {}
    prompt_ids, token_ids, log_probs = [last.get(field) for field in TOKEN_FIELDS]
    if prompt_ids is None or token_ids is None or log_probs is None or len(token_ids) != len(log_probs):
        token_ids = None
    else:
        chat_completion["prompt_token_ids"] = prompt_ids
        choice["token_ids"] = token_ids
        choice |= {name: last[name] for name in (CONSTRAINED, WEIGHT_VERSIONS, ROUTED_EXPERTS) if last.get(name)}
        choice["logprobs"] = {
            "content": [
                {"token": f"token_id:{token}", "logprob": log_prob, "bytes": None, "top_logprobs": []}
                for token, log_prob in zip(token_ids, log_probs, strict=True)
            ]
        }
    parts = [part for item in output if isinstance(item.get("content"), list) for part in item["content"]]
    entries = [entry for part in (*parts, *output[-1:]) for entry in part.get("logprobs") or ()]
    if entries and not token_ids:
        choice["logprobs"] = {"content": entries}
    elif entries and token_ids and log_probs:  # those of a text are in their place among the turn's
        values = [entry.get("logprob") for entry in entries]
        for start in range(len(token_ids) - len(values) + 1):
            if log_probs[start] == values[0] and log_probs[start : start + len(values)] == values:
                choice["logprobs"]["content"][start : start + len(values)] = entries
                break
    return chat_completion


def _check_size(message: dict[str, Any]) -> None:
    """Raise a ValueError for a message that would become more items or parts than any model writes."""
    for field in ("tool_calls", "content"):
        value = message.get(field)
        if isinstance(value, list) and len(value) > FEW and len(value) > limit(ITEMS):
            raise ValueError(f"`{field}` has {len(value):,} entries; {limit(ITEMS):,} is the limit ({ITEMS})")
    for field in ("reasoning_content", "reasoning"):
        value = message.get(field)
        if isinstance(value, str) and (blocks := value.count(REASONING_SEPARATOR)) > FEW and blocks >= limit(ITEMS):
            raise ValueError(f"`{field}` has {blocks + 1:,} blocks; {limit(ITEMS):,} is the limit ({ITEMS})")


def _short(identifier: Any) -> str:
    text = as_text(identifier)
    if len(text) <= MAX_ID:
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


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
            item["call_id"] = _short(item["call_id"] or f"call_{completion_id}_{calls}")
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
    if token_ids is not None and prompt_ids is not None:
        tokens = (prompt_ids, token_ids, [entry["logprob"] for entry in log_probs])
        check_tokens(*tokens)
        output[-1].update(zip(TOKEN_FIELDS, tokens, strict=True))
        if choice.get(WEIGHT_VERSIONS):
            output[-1][WEIGHT_VERSIONS] = choice[WEIGHT_VERSIONS]
        if isinstance(experts := choice.get(ROUTED_EXPERTS), str):
            output[-1][ROUTED_EXPERTS] = experts
        if not any(entry.get("top_logprobs") for entry in log_probs):
            return
    for item in output:
        if item["type"] == "message" and item["content"][0].get("type") == "output_text":
            item["content"][0]["logprobs"] = log_probs


def _usage_from_chat(usage: dict[str, Any] | None) -> Usage | None:
    """Token counts in the Responses API's names, None if the server counted nothing."""
    if not usage:
        return None
    converted: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    converted.update((ours, usage[theirs]) for ours, theirs in _USAGE.items() if usage.get(theirs) is not None)
    converted["total_tokens"] = converted["total_tokens"] or converted["input_tokens"] + converted["output_tokens"]
    return converted  # type: ignore[return-value]
