"""What a Responses request says about sampling, as arguments of vLLM's `SamplingParams`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_llm.engines.base import EngineError
from gym_llm.types import Request

PASSED_ON: dict[str, str] = {
    "allowed_token_ids": "whole numbers",
    "bad_words": "strings",
    "frequency_penalty": "a number",
    "ignore_eos": "true or false",
    "include_stop_str_in_output": "true or false",
    "min_p": "a number",
    "min_tokens": "a whole number",
    "presence_penalty": "a number",
    "repetition_penalty": "a number",
    "seed": "a whole number",
    "stop": "a string or strings",
    "stop_token_ids": "whole numbers",
    "thinking_token_budget": "a whole number",
    "top_k": "a whole number",
}
"""Request fields beyond the Responses API that mean the same to `vllm serve`, by these names, and what they are."""

_KINDS = {
    **PASSED_ON,
    "max_output_tokens": "a whole number",
    "temperature": "a number",
    "top_logprobs": "a whole number",
    "top_p": "a number",
}
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "a number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "a whole number": lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and -INT64 <= value < INT64  # else it cannot be sent
    ),
    "true or false": lambda value: isinstance(value, bool),
    "a string or strings": lambda value: isinstance(value, str) or _all(value, str),
    "strings": lambda value: _all(value, str),
    "whole numbers": lambda value: _all(value, int),
}
INT64 = 1 << 63
_LOGPROBS = "message.output_text.logprobs"


def sampling_arguments(request: Request, *, max_new_tokens: int | None = None) -> dict[str, Any]:
    """The arguments of `SamplingParams` that a request asks for.

    Fields that say nothing about sampling, and those of other servers, are left out.

    Args:
        request: The request. Not changed.
        max_new_tokens: For a request without `max_output_tokens`; None for as many as the context holds.

    Returns:
        A fresh dict; `structured_outputs` in it holds the arguments of `StructuredOutputsParams`.

    Raises:
        EngineError: If a value is of the wrong kind (vLLM's processes do not survive some of these), or
            `text.format` is not known.

    >>> sampling_arguments({"input": [], "temperature": 0.5, "max_output_tokens": 9, "stop": ["!"], "metadata": {}})
    {'stop': ['!'], 'max_tokens': 9, 'temperature': 0.5, 'logprobs': 0}
    """
    said: dict[str, Any] = {name: value for name, value in request.items() if value is not None}
    for name, kind in _KINDS.items():
        if name in said and not _CHECKS[kind](said[name]):
            raise EngineError(f"{name} is {kind}, got {said[name]!r:.80}.")
    arguments = {name: value for name, value in said.items() if name in PASSED_ON}
    limit = said.get("max_output_tokens")
    arguments["max_tokens"] = max_new_tokens if limit is None else max(1, limit)
    for name in ("temperature", "top_p"):
        if name in said:
            arguments[name] = said[name]
    arguments["logprobs"] = said.get("top_logprobs", 0)  # 0: the sampled tokens' own
    constraint = _constraint((said.get("text") or {}).get("format"))
    if constraint is not None:
        arguments["structured_outputs"] = constraint
    return arguments


def wants_log_probs(request: Request) -> bool:
    """Whether the request asks for log probabilities in the output text, as the Responses API has them."""
    return bool(request.get("top_logprobs")) or _LOGPROBS in (request.get("include") or ())  # type: ignore[operator]


def _constraint(text_format: dict[str, Any] | None) -> dict[str, Any] | None:
    """The arguments of `StructuredOutputsParams` for a `text.format`."""
    kind = "text" if text_format is None else text_format.get("type")
    if text_format is None or kind == "text":
        return None
    if kind == "json_object":
        return {"json_object": True}
    if kind == "json_schema" and isinstance(text_format.get("schema"), dict):
        return {"json": text_format["schema"]}
    raise EngineError(f"text.format is text, json_object or json_schema with a schema, got {text_format!r:.80}.")


def _all(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) and not isinstance(one, bool) for one in value)
