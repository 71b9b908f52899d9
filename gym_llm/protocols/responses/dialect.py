"""Responses, `POST /v1/responses` (https://platform.openai.com/docs/api-reference/responses): our own shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

from gym_llm.protocols.dialect import Body, Dialect, Refusal
from gym_llm.protocols.http.sse import COMMENT, event, pieces
from gym_llm.protocols.responses.namespaces import flattened, with_namespaces
from gym_llm.protocols.responses.request_checks import NOT_THE_MODELS, check_answerable, checked, output_for
from gym_llm.protocols.responses.token_fields import without_tokens
from gym_llm.types import Item, Request, ResponseDict

_ECHOED: dict[str, Any] = {
    **dict.fromkeys(("instructions", "max_output_tokens", "previous_response_id", "reasoning", "text")),
    **{"metadata": {}, "parallel_tool_calls": True, "temperature": None, "tool_choice": "auto", "tools": []},
    **{"top_p": None, "truncation": "disabled", "store": False},
}
"""Fields of the body that an answer repeats, with their defaults."""
_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


def read(body: Body) -> Request:
    """The request of a body; see `Dialect.read`."""
    check_answerable(body)
    body = flattened(body)
    return checked({name: value for name, value in body.items() if value is not None and name not in NOT_THE_MODELS})


def answer(response: ResponseDict, body: Body) -> dict[str, Any]:
    """The whole answer; see `Dialect.answer`."""
    echoed = {name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()}
    usage: Any = response.get("usage")
    return {
        "error": None,
        "incomplete_details": None,
        **echoed,
        **response,
        "output": _output(response, body),
        "usage": usage
        and {
            **usage,
            # Clients read these two without asking whether they are there.
            "input_tokens_details": {"cached_tokens": 0, **(usage.get("input_tokens_details") or {})},
            "output_tokens_details": {"reasoning_tokens": 0, **(usage.get("output_tokens_details") or {})},
        },
    }


def _output(response: ResponseDict, body: Body) -> list[Item]:
    """The items with what the API's own have, where an engine or a parser left it out."""
    completed = response.get("status") or "completed"
    output: list[Item] = []
    for index, item in enumerate(with_namespaces(output_for(response, body), body)):
        kind = item.get("type") or "message"
        if (prefix := _PREFIXES.get(kind)) is None:
            output.append(item)
            continue
        whole: Item = {**item, "type": kind, "id": item.get("id") or f"{prefix}_{response['id']}_{index}"}
        if kind == "reasoning":
            whole["summary"] = item.get("summary") or []
        else:
            whole["status"] = item.get("status") or ("incomplete" if completed == "incomplete" else "completed")
            if isinstance(text := item.get("content"), str):
                whole["content"] = [{"type": "output_text", "text": text, "annotations": []}]
        output.append(whole)
    return output


def events(response: ResponseDict, body: Body) -> Iterator[bytes]:
    """The answer as a stream; see `Dialect.events`."""
    whole = answer(response, body)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    stream = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    number = 0
    for number, (kind, fields) in enumerate(chain(stream, _items(whole["output"]))):
        yield event({"type": kind, "sequence_number": number, **fields}, kind)
    kind = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
    yield event({"type": kind, "sequence_number": number + 1, "response": whole}, kind)


_Event: TypeAlias = tuple[str, dict[str, Any]]


def _items(output: list[Item]) -> Iterator[_Event]:
    """The events of each item: it is added empty, filled piece by piece, and done."""
    for index, item in enumerate(output):
        place = {"item_id": item.get("id"), "output_index": index}
        bare = without_tokens(item)
        kind = item.get("type")
        filling: Iterable[_Event] = ()
        if kind == "message":
            begun = {**bare, "status": "in_progress", "content": []}
            filling = _parts(item["content"], place)
        elif kind == "function_call":
            begun = {**bare, "status": "in_progress", "arguments": ""}
            filling = _text("response.function_call_arguments", item["arguments"], place, "arguments", {})
        elif kind == "reasoning":
            begun = {name: value for name, value in bare.items() if name != "content"} | {"summary": []}
            filling = _thoughts(item, place)
        else:
            begun = bare
        yield "response.output_item.added", {"output_index": index, "item": begun}
        yield from filling
        yield "response.output_item.done", {"output_index": index, "item": item}


def _parts(content: list[dict[str, Any]], place: dict[str, Any]) -> Iterator[_Event]:
    for index, part in enumerate(content):
        where = {**place, "content_index": index}
        if part.get("type") == "output_text":
            log_probs = part.get("logprobs") or []
            begun = {**part, "text": "", "annotations": [], **({"logprobs": []} if log_probs else {})}
            yield "response.content_part.added", {**where, "part": begun}
            yield from _text("response.output_text", part["text"], where, "text", {"logprobs": log_probs})
        elif part.get("type") == "refusal":
            yield "response.content_part.added", {**where, "part": {**part, "refusal": ""}}
            yield from _text("response.refusal", part["refusal"], where, "refusal", {})
        else:
            yield "response.content_part.added", {**where, "part": part}
        yield "response.content_part.done", {**where, "part": part}


def _thoughts(item: Item, place: dict[str, Any]) -> Iterator[_Event]:
    for index, part in enumerate(item["summary"]):
        where = {**place, "summary_index": index}
        yield "response.reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}
        yield from _text("response.reasoning_summary_text", part["text"], where, "text", {})
        yield "response.reasoning_summary_part.done", {**where, "part": part}
    for index, part in enumerate(item.get("content") or ()):
        yield from _text("response.reasoning_text", part["text"], {**place, "content_index": index}, "text", {})


def _text(kind: str, text: str, place: dict[str, Any], name: str, more: dict[str, Any]) -> Iterator[_Event]:
    nothing: dict[str, Any] = {key: [] for key in more}  # the last piece has all log probabilities
    *before, last = list(pieces(text)) or [""]
    for piece in before:
        yield f"{kind}.delta", {**place, "delta": piece, **nothing}
    if last:
        yield f"{kind}.delta", {**place, "delta": last, **more}
    yield f"{kind}.done", {**place, name: text, **more}


def _broken(error: Refusal) -> bytes:
    fields = {"type": "error", "code": error.code or error.kind, "message": str(error), "param": error.param}
    # `error` within it is what makes OpenAI's client raise.
    return event({**fields, "sequence_number": 0, **error.body()}, "error")


RESPONSES = Dialect(
    name="responses",
    path="/v1/responses",
    read=read,
    answer=answer,
    events=events,
    refusal=Refusal.body,
    broken=_broken,
    waiting=COMMENT,
)
"""The Responses API, in which our own requests and responses are written."""
