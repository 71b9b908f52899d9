"""Checks of requests that the dialects share: fields that cannot be served here, and the shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from gym_llm.protocols.dialect import Body, Refusal
from gym_llm.protocols.responses import ResponseCreateParams, explain
from gym_llm.types import TOKEN_FIELDS, TURN_FIELDS, Item, Request, ResponseDict
from gym_llm.utils.limits import FEW, ITEMS, limit

NOT_THE_MODELS = frozenset(
    {"model", "stream", "stream_options", "store", "user", "service_tier", "return_token_ids", "n"}
    | {"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "background"}
)
"""Parameters about the server and its bill, which do not change the model's request."""

_AT_ONCE = 256
"""The number of items that are checked together. Pydantic reports every error: a million wrong items took it twenty
seconds, in which the server answered no request.
"""

_LISTS = ("content", "output", "summary")
_REFUSED = {
    "background": "Nothing is answered in the background here: leave `background` out.",
    "conversation": "No history is kept here: give all items in `input`.",
    "previous_response_id": "No history is kept here: give all items in `input`.",
    "prompt": "No prompts are kept here: give `input`.",
}


def check_answerable(body: Body) -> None:
    """Raise a Refusal for a body that asks for what no engine does."""
    for name, sentence in _REFUSED.items():
        if body.get(name):
            raise Refusal(sentence, param=name)
    if body.get("n") not in (None, 1):
        raise Refusal("One answer is sampled for a request: send it `n` times.", param="n")


def checked(request: dict[str, Any]) -> Request:
    """Return the request; a text as `input` becomes a user's message.

    Raises:
        Refusal: If the request is invalid, with the first error.
    """
    items = request.get("input")
    _check_sizes(request)
    if isinstance(items, list) and len(items) > _AT_ONCE:
        for start in range(0, len(items), _AT_ONCE):
            if _problem({"input": items[start : start + _AT_ONCE]}) is not None:
                request = {**request, "input": items[: start + _AT_ONCE]}  # all before are right
                break
    if (problem := _problem(request)) is not None:
        place = problem.errors(include_url=False)[0]["loc"]
        raise Refusal(explain(problem), param=str(place[0]) if place else None)
    if isinstance(request["input"], str):
        request["input"] = [{"role": "user", "content": request["input"]}]
    return request  # type: ignore[return-value]


def _problem(request: dict[str, Any]) -> ValidationError | None:
    try:
        ResponseCreateParams.model_validate(request)
    except ValidationError as error:
        return error
    return None


def _check_sizes(request: dict[str, Any]) -> None:
    for name, value in [("tools", request.get("tools")), *_parts(request.get("input"))]:
        if isinstance(value, list) and len(value) > FEW and len(value) > limit(ITEMS):
            raise Refusal(f"`{name}` has {len(value):,} entries; {limit(ITEMS):,} is the limit ({ITEMS}).", param=name)


def _parts(items: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(items, list):
        yield from ((name, item.get(name)) for item in items if isinstance(item, dict) for name in _LISTS)


def output_for(response: ResponseDict, body: Body) -> list[Item]:
    """The response's items, with token ids only if the body asks for them."""
    output = response["output"]
    if body.get("return_token_ids") is True or not any(TOKEN_FIELDS[0] in item for item in output):
        return output
    return [{name: item[name] for name in item if name not in TURN_FIELDS} for item in output]
