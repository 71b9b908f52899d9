"""What a Responses request says about sampling, as arguments of vLLM's `SamplingParams`."""

from __future__ import annotations

from typing import Any

from gym_llm.engines.sampling import PASSED_ON, check_sampling, text_format
from gym_llm.errors import EngineError
from gym_llm.types import Request


def sampling_arguments(request: Request, *, max_new_tokens: int | None = None) -> dict[str, Any]:
    """The arguments of `SamplingParams` that a request asks for.

    Fields that say nothing about sampling, and those of other servers, are left out; `max_new_tokens` is for a request
    without `max_output_tokens`. `structured_outputs` holds the arguments of `StructuredOutputsParams`.

    Raises:
        EngineError: If a value is of the wrong kind (vLLM's processes do not survive some of these), or
            `text.format` is not known.

    >>> sampling_arguments({"input": [], "temperature": 0.5, "max_output_tokens": 9, "stop": ["!"], "metadata": {}})
    {'stop': ['!'], 'max_tokens': 9, 'temperature': 0.5, 'logprobs': 0}
    """
    fields = check_sampling(request)
    arguments = {name: value for name, value in fields.items() if name in PASSED_ON}
    limit = fields.get("max_output_tokens")
    arguments["max_tokens"] = max_new_tokens if limit is None else limit
    for name in ("temperature", "top_p"):
        if name in fields:
            arguments[name] = fields[name]
    arguments["logprobs"] = fields.get("top_logprobs", 0)  # 0: the sampled tokens' own
    constraint = _constraint(text_format(request))
    if constraint is not None:
        arguments["structured_outputs"] = constraint
    return arguments


def _constraint(form: dict[str, Any] | None) -> dict[str, Any] | None:
    """The arguments of `StructuredOutputsParams` for a `text.format`."""
    if form is None:
        return None
    if form.get("type") == "json_object":
        return {"json_object": True}
    if form.get("type") == "json_schema" and isinstance(form.get("schema"), dict):
        return {"json": form["schema"]}
    raise EngineError(f"text.format is text, json_object or json_schema with a schema, got {form!r:.80}.")
