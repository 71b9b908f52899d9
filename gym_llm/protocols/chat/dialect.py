"""Chat Completions, `POST /v1/chat/completions` (https://platform.openai.com/docs/api-reference/chat).

Beyond OpenAI's: `reasoning_content` in messages, and `return_token_ids`, as vLLM has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.chat_messages import MALFORMED
from gym_llm.protocols.chat.completions import response_to_chat
from gym_llm.protocols.chat.requests import chat_to_request
from gym_llm.protocols.dialect import Body, Dialect, Refusal
from gym_llm.protocols.http.sse import COMMENT, event, pieces
from gym_llm.protocols.responses.request_checks import NOT_THE_MODELS, check_answerable, checked, output_for
from gym_llm.types import Request, ResponseDict

_FINISH_REASONS = {"stop", "length", "tool_calls", "content_filter"}


def read(body: Body) -> Request:
    """The request of a body; see `Dialect.read`."""
    check_answerable(body)
    if not isinstance(body.get("stream_options") or {}, dict):
        raise Refusal('stream_options is an object, {"include_usage": true}.', param="stream_options")
    try:
        request = chat_to_request({name: value for name, value in body.items() if name not in NOT_THE_MODELS})
    except (*MALFORMED, EngineError) as error:
        raise Refusal(f"This is not a chat request: {error}", param="messages") from None
    return checked({**request})


def answer(response: ResponseDict, body: Body) -> dict[str, Any]:
    """The whole answer; see `Dialect.answer`."""
    chat = response_to_chat({**response, "output": output_for(response, body)})
    choice = chat["choices"][0]
    if choice["finish_reason"] not in _FINISH_REASONS:  # vLLM's own: clients check what they are given
        choice["finish_reason"] = "length"
    return chat


def events(response: ResponseDict, body: Body) -> Iterator[bytes]:
    """The answer as a stream; see `Dialect.events`."""
    chat = answer(response, body)
    choice = chat["choices"][0]
    chunk = {"id": chat["id"], "object": "chat.completion.chunk", "created": chat["created"], "model": chat["model"]}
    with_usage = (body.get("stream_options") or {}).get("include_usage")
    if with_usage:
        chunk["usage"] = None

    def delta(said: dict[str, Any], **more: Any) -> bytes:
        return event({**chunk, "choices": [{"index": 0, "delta": said, "finish_reason": None, **more}]})

    first: dict[str, Any] = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    prompt = {"prompt_token_ids": chat["prompt_token_ids"]} if "prompt_token_ids" in chat else {}
    yield event({**chunk, **prompt, "choices": [first]})
    message = choice["message"]
    for piece in pieces(message.get("reasoning_content") or ""):
        yield delta({"reasoning_content": piece, "reasoning": piece})
    content = message.get("content") or ""
    for piece in pieces(content if isinstance(content, str) else ""):
        yield delta({"content": piece})
    for piece in pieces(message.get("refusal") or ""):
        yield delta({"refusal": piece})
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        start = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield delta({"tool_calls": [start]})
        for piece in pieces(function["arguments"]):
            yield delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    last = {name: choice[name] for name in ("logprobs", "token_ids") if choice.get(name) is not None}
    yield delta({}, **{"finish_reason": choice["finish_reason"], **last})
    if with_usage:
        yield event({**chunk, "choices": [], "usage": chat["usage"]})
    yield b"data: [DONE]\n\n"


def _broken(error: Refusal) -> bytes:
    return event(error.body())


CHAT = Dialect(
    name="chat",
    path="/v1/chat/completions",
    read=read,
    answer=answer,
    events=events,
    refusal=Refusal.body,
    broken=_broken,
    waiting=COMMENT,
)
"""The Chat Completions API, which most servers of open models speak."""
