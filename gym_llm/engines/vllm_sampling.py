"""What a Responses request says about sampling, as arguments of vLLM's `SamplingParams`."""

from __future__ import annotations

from typing import Any

from gym_llm.engines.sampling import PASSED_ON, check_sampling, text_format
from gym_llm.errors import EngineError
from gym_llm.types import Request


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
    said = check_sampling(request)
    arguments = {name: value for name, value in said.items() if name in PASSED_ON}
    limit = said.get("max_output_tokens")
    arguments["max_tokens"] = max_new_tokens if limit is None else limit
    for name in ("temperature", "top_p"):
        if name in said:
            arguments[name] = said[name]
    arguments["logprobs"] = said.get("top_logprobs", 0)  # 0: the sampled tokens' own
    constraint = _constraint(text_format(request))
    if constraint is not None:
        arguments["structured_outputs"] = constraint
    return arguments


def _constraint(wanted: dict[str, Any] | None) -> dict[str, Any] | None:
    """The arguments of `StructuredOutputsParams` for a `text.format`."""
    if wanted is None:
        return None
    if wanted.get("type") == "json_object":
        return {"json_object": True}
    if wanted.get("type") == "json_schema" and isinstance(wanted.get("schema"), dict):
        return {"json": wanted["schema"]}
    raise EngineError(f"text.format is text, json_object or json_schema with a schema, got {wanted!r:.80}.")
