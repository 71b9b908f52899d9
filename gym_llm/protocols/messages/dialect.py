"""Anthropic's Messages API, `POST /v1/messages` (https://docs.anthropic.com/en/api/messages)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gym_llm.protocols.chat.chat_messages import MALFORMED
from gym_llm.protocols.dialect import Body, Dialect, Refusal
from gym_llm.protocols.http.sse import event, pieces
from gym_llm.protocols.messages.requests import read
from gym_llm.protocols.messages.thinking_blocks import UNPARSED, thinking_blocks
from gym_llm.protocols.responses.request_checks import output_for
from gym_llm.records.failures import reason
from gym_llm.types import TURN_FIELDS, Item, ResponseDict
from gym_llm.utils.json_codec import dumps, loads

_STOPS = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
_KINDS = {
    **{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"},
    **{413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error"},
}


def answer(response: ResponseDict, body: Body) -> dict[str, Any]:
    """The whole answer; see `Dialect.answer`."""
    try:
        return _message(response, body)
    except ValueError:
        raise
    except MALFORMED as error:
        raise ValueError(f"This is not a response ({reason(error)}).") from error


def _message(response: ResponseDict, body: Body) -> dict[str, Any]:
    output = output_for(response, body)
    content = [block for item in output for block in _blocks(item)]
    cut_by = (response.get("incomplete_details") or {}).get("reason")
    if cut_by is not None:
        stop = _STOPS.get(cut_by, "max_tokens")
    elif any(block["type"] == "tool_use" for block in content):
        stop = "tool_use"
    else:
        stop = "refusal" if any(_refuses(item) for item in output) else "end_turn"
    usage: Any = response.get("usage") or {}
    cached = (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0
    counts = {"input_tokens": usage.get("input_tokens", 0) - cached, "output_tokens": usage.get("output_tokens", 0)}
    last = output[-1] if output else {}
    return {
        "id": f"msg_{response['id'].removeprefix('resp_')}",
        "type": "message",
        "role": "assistant",
        "model": response.get("model", ""),
        "content": content or [{"type": "text", "text": ""}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {**counts, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached},
        **{name: last[name] for name in TURN_FIELDS if name in last},
    }


def _blocks(item: Item) -> list[dict[str, Any]]:
    """The content blocks of an item."""
    kind = item.get("type") or "message"
    if kind == "reasoning":
        return thinking_blocks(item)
    if kind == "function_call":
        block = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": _input(item["arguments"])}
        return [block]
    if kind != "message" or item.get("role") != "assistant":
        raise ValueError(f"The Messages API has no block for an item of type {kind!r:.60}.")
    content = item["content"]
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
    text = "".join(part["refusal"] if part.get("type") == "refusal" else part["text"] for part in parts)
    return [{"type": "text", "text": text}] if text else []


def _refuses(item: Item) -> bool:
    parts = item.get("content")
    return isinstance(parts, list) and any(part.get("type") == "refusal" for part in parts)


def _input(arguments: str) -> dict[str, Any]:
    if not arguments.strip():
        return {}
    try:
        value = loads(arguments.encode())
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {UNPARSED: arguments}


def events(response: ResponseDict, body: Body) -> Iterator[bytes]:
    """The answer as a stream; see `Dialect.events`."""
    message = answer(response, body)
    usage = message["usage"]
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    yield _event("message_start", message=begun)
    for index, block in enumerate(message["content"]):
        empty, deltas = _deltas(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta=stop, usage=usage)
    yield _event("message_stop")


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """A block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
        case "tool_use":
            text = dumps(block["input"]).decode().rstrip("\n")
            return {**block, "input": {}}, (
                {"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)
            )
        case "thinking":
            return {**block, "thinking": "", "signature": ""}, _thoughts(block)
    return block, iter(())


def _thoughts(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in pieces(block["thinking"]):
        yield {"type": "thinking_delta", "thinking": piece}
    yield {"type": "signature_delta", "signature": block["signature"]}


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def refusal(error: Refusal) -> dict[str, Any]:
    """An error as Anthropic's clients read it; see `Dialect.refusal`."""
    kind = _KINDS.get(error.status) or ("api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": str(error)}, "request_id": None}


def _broken(error: Refusal) -> bytes:
    return event(refusal(error), "error")


MESSAGES = Dialect(
    name="messages",
    path="/v1/messages",
    read=read,
    answer=answer,
    events=events,
    refusal=refusal,
    broken=_broken,
    waiting=_event("ping"),
)
"""Anthropic's Messages API, which Claude's own tools and frameworks speak."""
