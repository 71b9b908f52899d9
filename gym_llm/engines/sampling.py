"""Sampling fields of a Responses request, their checks, and the seeds of single turns."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.requests import LOGPROBS
from gym_llm.protocols.responses.bodies import PASSED_ON
from gym_llm.types import Request
from gym_llm.utils.text import excerpt

_KINDS = {
    **PASSED_ON,
    "max_output_tokens": "a whole number, 1 or more",
    "temperature": "a number, 0 or more",
    "top_logprobs": "a whole number",
    "top_p": "a number above 0, at most 1",
}
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "a number": lambda value: _number(value, -sys.float_info.max),
    "a number, 0 or more": lambda value: _number(value, 0),
    "a number above 0, at most 1": lambda value: _number(value, sys.float_info.min, 1),
    "a whole number": lambda value: _whole(value, -INT64),
    "a whole number, 1 or more": lambda value: _whole(value, 1),
    "true or false": lambda value: isinstance(value, bool),
    "a string or strings": lambda value: isinstance(value, str) or _all(value, str),
    "strings": lambda value: _all(value, str),
    "whole numbers": lambda value: _all(value, int),
}
INT64 = 1 << 63


def check_sampling(request: Request) -> dict[str, Any]:
    """The request's fields that are not None, if something can be sampled with their values, whichever engine samples.

    Raises:
        EngineError: If a value is of the wrong kind; engines' processes and threads do not survive some of these.

    >>> check_sampling({"input": [], "temperature": 0.5, "top_p": None})
    {'input': [], 'temperature': 0.5}
    """
    fields: dict[str, Any] = {name: value for name, value in request.items() if value is not None}
    for name, kind in _KINDS.items():
        if name in fields and not _CHECKS[kind](fields[name]):
            raise EngineError(f"{name} is {kind}, got {excerpt(fields[name], 80)}.")
    return fields


def sampling_arguments(request: Request, *, max_new_tokens: int | None = None) -> dict[str, Any]:
    """The arguments of vLLM's `SamplingParams` that a request asks for; `max_new_tokens` if it has no limit itself.

    Fields that say nothing about sampling, and those of other servers, are left out. `structured_outputs` holds the
    arguments of `StructuredOutputsParams`.

    Raises:
        EngineError: See `check_sampling`; or `text.format` is not known.

    >>> sampling_arguments({"input": [], "temperature": 0.5, "max_output_tokens": 9, "stop": ["!"], "metadata": {}})
    {'stop': ['!'], 'max_tokens': 9, 'temperature': 0.5, 'logprobs': 0}
    """
    fields = check_sampling(request)
    arguments = {name: value for name, value in fields.items() if name in PASSED_ON}
    arguments["max_tokens"] = fields.get("max_output_tokens", max_new_tokens)
    arguments.update((name, fields[name]) for name in ("temperature", "top_p") if name in fields)
    arguments["logprobs"] = fields.get("top_logprobs", 0)  # 0: the sampled tokens' own
    match text_format(request):
        case None:
            pass
        case {"type": "json_object"}:
            arguments["structured_outputs"] = {"json_object": True}
        case {"type": "json_schema", "schema": dict(schema)}:
            arguments["structured_outputs"] = {"json": schema}
        case form:
            raise EngineError(
                f"text.format is text, json_object or json_schema with a schema, got {excerpt(form, 80)}."
            )
    return arguments


def turn_seed(seed: int, episode_id: str, turn: int) -> int:
    """The seed of one turn, in [0, 2**128): the same in every process, whatever else is sampled meanwhile.

    >>> turn_seed(0, "7-0", 1) == turn_seed(0, "7-0", 1), turn_seed(0, "7-0", 1) == turn_seed(0, "7-0", 2)
    (True, False)
    """
    name = f"{seed}\n{turn}\n{episode_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=16).digest())


def text_format(request: Request) -> dict[str, Any] | None:
    """Return the request's `text.format`; None if any text will do. Raises EngineError if it is not an object."""
    text = request.get("text") or {}
    form = text.get("format") if isinstance(text, dict) else text
    if form is not None and not isinstance(form, dict):
        raise EngineError(f'text is an object such as {{"format": {{"type": "text"}}}}, got {excerpt(text, 80)}.')
    return None if form is None or form.get("type") == "text" else form


def wants_log_probs(request: Request) -> bool:
    """Whether the request asks for log probabilities in the output text, as the Responses API has them."""
    return bool(request.get("top_logprobs")) or LOGPROBS in (request.get("include") or ())  # type: ignore[operator]


def _number(value: Any, low: float, high: float = sys.float_info.max) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high


def _whole(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < INT64  # else it cannot be sent


def _all(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) and not isinstance(one, bool) for one in value)


def stop_place(text: str, stop: Any) -> int | None:
    """Return where the first of a request's `stop` texts begins in a text; None if the text has none of them."""
    stops = [stop] if isinstance(stop, str) else stop or ()
    return min((place for each in stops if (place := text.find(each)) >= 0), default=None)
