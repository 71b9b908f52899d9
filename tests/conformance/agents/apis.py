"""The three APIs, as an agent without a library speaks them: bodies, answers and streams."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

from .turns import ToolCall, Turn


class API(Protocol):
    """How one API is spoken.

    Attributes:
        name: `chat`, `responses` or `messages`.
        path: Where it is, after the base URL.
    """

    name: str
    path: str

    def headers(self, key: str) -> dict[str, str]:
        """What a request brings beside its body."""

    def body(self, turns: Sequence[Turn], tools: Sequence[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        """A request's body. Tools are `{name, description, parameters}`; `max_tokens` and `stop` are options."""

    def read(self, answer: dict[str, Any]) -> Turn:
        """The model's turn in an answer."""

    def assemble(self, events: Iterable[tuple[str, Any]]) -> Turn:
        """The model's turn in a stream's events, each its name and its data."""


class Chat:
    """Chat Completions."""

    name = "chat"
    path = "/v1/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def body(self, turns: Sequence[Turn], tools: Sequence[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        messages = [message for turn in turns for message in self._messages(turn)]
        body: dict[str, Any] = {"messages": messages, **options}
        if tools:
            body["tools"] = [{"type": "function", "function": dict(tool)} for tool in tools]
        return body

    def _messages(self, turn: Turn) -> Iterator[dict[str, Any]]:
        if turn.native is not None:
            yield from turn.native
            return
        content: Any = [{"type": "text", "text": turn.text}] if turn.parts else turn.text
        message: dict[str, Any] = {"role": turn.role, "content": content}
        if turn.role == "tool":
            message["tool_call_id"] = turn.call_id
        if turn.reasoning:
            message["reasoning_content"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in turn.calls
            ]
        yield message

    def read(self, answer: dict[str, Any]) -> Turn:
        choice = answer["choices"][0]
        return self._turn(choice["message"], choice["finish_reason"])

    def assemble(self, events: Iterable[tuple[str, Any]]) -> Turn:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        finish = ""
        for _, chunk in events:
            for choice in chunk.get("choices") or ():
                delta = choice.get("delta") or {}
                for name in ("content", "reasoning_content", "reasoning"):
                    if delta.get(name):
                        message[name] = (message.get(name) or "") + delta[name]
                for piece in delta.get("tool_calls") or ():
                    calls = message.setdefault("tool_calls", [])
                    while len(calls) <= piece["index"]:
                        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
                    call = calls[piece["index"]]
                    call["id"] = piece.get("id") or call["id"]
                    function = piece.get("function") or {}
                    call["function"]["name"] += function.get("name") or ""
                    call["function"]["arguments"] += function.get("arguments") or ""
                finish = choice.get("finish_reason") or finish
        return self._turn(message, finish)

    def _turn(self, message: dict[str, Any], finish: str) -> Turn:
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        )
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        # As `message.model_dump(exclude_none=True)` of OpenAI's client is sent back.
        native = {key: value for key, value in message.items() if value is not None}
        return Turn("assistant", message.get("content") or "", reasoning, calls, native=[native], finish=finish)


class Responses:
    """The Responses API, without state on the server."""

    name = "responses"
    path = "/v1/responses"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def body(self, turns: Sequence[Turn], tools: Sequence[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        options = dict(options)
        body: dict[str, Any] = {"input": [], "store": False}
        if "max_tokens" in options:
            options["max_output_tokens"] = options.pop("max_tokens")
        if turns and turns[0].role == "system":
            body["instructions"] = turns[0].text
            turns = turns[1:]
        body["input"] = [item for turn in turns for item in self._items(turn)]
        if tools:
            body["tools"] = [{"type": "function", "strict": False, **tool} for tool in tools]
        return {**body, **options}

    def _items(self, turn: Turn) -> Iterator[dict[str, Any]]:
        if turn.native is not None:
            yield from turn.native
        elif turn.role == "tool":
            yield {"type": "function_call_output", "call_id": turn.call_id, "output": turn.text}
        elif turn.role == "assistant":
            if turn.reasoning:
                content = [{"type": "reasoning_text", "text": turn.reasoning}]
                yield {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}
            if turn.text or not turn.calls:
                parts = [{"type": "output_text", "text": turn.text, "annotations": []}]
                yield {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts}
            for call in turn.calls:
                fields = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
                yield {"type": "function_call", "id": f"fc_{call.id}", "status": "completed", **fields}
        else:
            text: Any = [{"type": "input_text", "text": turn.text}] if turn.parts else turn.text
            yield {"type": "message", "role": turn.role, "content": text}

    def read(self, answer: dict[str, Any]) -> Turn:
        text = reasoning = ""
        calls = []
        for item in answer["output"]:
            if item["type"] == "function_call":
                calls.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
            elif item["type"] == "reasoning":
                reasoning += "".join(part["text"] for part in item.get("content") or item.get("summary") or ())
            else:
                text += "".join(part["text"] for part in item["content"])
        finish = (answer.get("incomplete_details") or {}).get("reason") or answer["status"]
        return Turn("assistant", text, reasoning, tuple(calls), native=answer["output"], finish=finish)

    def assemble(self, events: Iterable[tuple[str, Any]]) -> Turn:
        text, answer = "", None
        arguments: dict[int, str] = {}
        for name, event in events:
            if name == "response.output_text.delta":
                text += event["delta"]
            elif name == "response.function_call_arguments.delta":
                place = event["output_index"]
                arguments[place] = arguments.get(place, "") + event["delta"]
            elif name in ("response.completed", "response.incomplete"):
                answer = event["response"]
        if answer is None:
            raise ValueError("the stream has no response.completed")
        turn = self.read(answer)
        if text != turn.text or list(arguments.values()) != [call.arguments for call in turn.calls]:
            raise ValueError(f"the deltas ({text!r}, {arguments}) are not what the whole response says ({turn})")
        return turn


class Messages:
    """Anthropic's Messages API."""

    name = "messages"
    path = "/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def body(self, turns: Sequence[Turn], tools: Sequence[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"max_tokens": 2048, **options}
        if "stop" in body:
            body["stop_sequences"] = body.pop("stop")
        if turns and turns[0].role == "system":
            body["system"] = turns[0].text
            turns = turns[1:]
        body["messages"] = []
        for role, group in groupby(turns, key=lambda turn: turn.role):
            if role == "tool":  # the results of one turn's calls are one message
                blocks = [{"type": "tool_result", "tool_use_id": turn.call_id, "content": turn.text} for turn in group]
                body["messages"].append({"role": "user", "content": blocks})
            else:
                body["messages"] += [message for turn in group for message in self._messages(turn)]
        if tools:
            body["tools"] = [
                {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
                for tool in tools
            ]
        return body

    def _messages(self, turn: Turn) -> Iterator[dict[str, Any]]:
        if turn.native is not None:
            blocks: Any = turn.native
        elif turn.role == "assistant":
            blocks = [{"type": "thinking", "thinking": turn.reasoning, "signature": ""}] if turn.reasoning else []
            blocks += [{"type": "text", "text": turn.text}] if turn.text else []
            blocks += [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
                for call in turn.calls
            ]
        else:
            blocks = [{"type": "text", "text": turn.text}] if turn.parts else turn.text
        # The API takes no empty texts; agents leave such turns out.
        if isinstance(blocks, list):
            blocks = [block for block in blocks if block.get("type") != "text" or block["text"]]
        if blocks:
            yield {"role": turn.role, "content": blocks}

    def read(self, answer: dict[str, Any]) -> Turn:
        return self._turn(answer["content"], answer["stop_reason"])

    def assemble(self, events: Iterable[tuple[str, Any]]) -> Turn:
        blocks: list[dict[str, Any]] = []
        finish = ""
        for name, event in events:
            if name == "content_block_start":
                blocks.append(dict(event["content_block"]))
            elif name == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                for key in ("text", "thinking", "signature"):
                    if key in delta:
                        block[key] = block.get(key, "") + delta[key]
                block["json"] = block.get("json", "") + delta.get("partial_json", "")
            elif name == "message_delta":
                finish = event["delta"].get("stop_reason") or finish
        for block in blocks:
            if written := block.pop("json", ""):
                block["input"] = json.loads(written)
        return self._turn(blocks, finish)

    def _turn(self, blocks: list[dict[str, Any]], finish: str) -> Turn:
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        reasoning = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
        calls = tuple(
            ToolCall(block["id"], block["name"], json.dumps(block["input"], ensure_ascii=False))
            for block in blocks
            if block["type"] == "tool_use"
        )
        return Turn("assistant", text, reasoning, calls, native=blocks, finish=finish)


APIS: dict[str, API] = {api.name: api for api in (Chat(), Responses(), Messages())}
