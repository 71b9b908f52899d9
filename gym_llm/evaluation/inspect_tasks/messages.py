"""Requests as what Inspect's models take, and their outputs as responses."""

from __future__ import annotations

import json
import time
from typing import Any, cast

from inspect_ai.model import ContentReasoning, GenerateConfig, ModelOutput, ResponseSchema
from inspect_ai.tool import ToolFunction, ToolInfo, ToolParams
from inspect_ai.util import JSONSchema

from gym_llm.errors import UsageError
from gym_llm.evaluation.export.inspect_log import chat_message
from gym_llm.protocols.chat.chat_messages import REASONING_SEPARATOR, assistant_items, messages_of
from gym_llm.types import Item, Request, ResponseDict

_CUT_OFF = {"max_tokens": "max_output_tokens", "model_length": "max_output_tokens", "content_filter": "content_filter"}
_CONFIG = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens"}
_VALUES = ("default", "enum", "examples", "required")
_OBJECT_FIELDS = {"properties", "required", "additionalProperties"}
_MOST_PARTS = 10_000


def chat_messages(items: list[Item]) -> list[Any]:
    """Return items as Inspect's messages."""
    return [chat_message(message) for message in messages_of(items)]


def first_messages(request: Request) -> list[Any]:
    """Return a request's `instructions` and `input` as Inspect's messages."""
    system = [{"role": "system", "content": request["instructions"]}] if request.get("instructions") else []
    given: Any = request["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [*map(chat_message, system), *chat_messages(items)]


def tool_infos(request: Request) -> list[ToolInfo]:
    """Return a request's tools.

    Raises:
        UsageError: If a tool is not a function.
    """
    return [_tool(tool) for tool in request.get("tools") or ()]


def tool_choice(request: Request) -> Any:
    """Return Inspect's word for a request's `tool_choice`; None if it has none."""
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        return ToolFunction(name=choice["name"]) if choice.get("type") == "function" else None
    return "any" if choice == "required" else choice


def sampling_config(request: Request) -> dict[str, Any]:
    """Return the fields of a `GenerateConfig` that a request sets."""
    found: dict[str, Any] = {ours: request.get(name) for name, ours in _CONFIG.items()}
    found["parallel_tool_calls"] = request.get("parallel_tool_calls")
    found["reasoning_effort"] = (request.get("reasoning") or {}).get("effort")
    form = (request.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        schema = JSONSchema.model_validate(_Inliner(form["schema"]).of(form["schema"]))
        found["response_schema"] = ResponseSchema(
            name=form.get("name") or "answer", json_schema=schema, strict=form.get("strict")
        )
    known = {name: value for name, value in found.items() if value is not None}
    return {name: value for name, value in known.items() if name in GenerateConfig.model_fields}


def response_of(output: ModelOutput) -> ResponseDict:
    """Return what an Inspect model said as a response."""
    choice = output.choices[0]
    message, cut_off = choice.message, _CUT_OFF.get(choice.stop_reason)
    parts = message.content if isinstance(message.content, list) else []
    thoughts = [_thought(part) for part in parts if isinstance(part, ContentReasoning)]
    calls = [
        {"id": call.id, "function": {"name": call.function, "arguments": _arguments(call)}}
        for call in message.tool_calls or ()
    ]
    said = {"content": message.text, "tool_calls": calls}
    said["reasoning_content"] = REASONING_SEPARATOR.join(filter(None, thoughts))
    response: dict[str, Any] = {
        "id": message.id or "",
        "object": "response",
        "created_at": time.time(),
        "model": output.model,
        "status": "incomplete" if cut_off else "completed",
        "output": assistant_items(said),
    }
    if cut_off:
        response["incomplete_details"] = {"reason": cut_off}
    if usage := output.usage:
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        counts = {"input_tokens": usage.input_tokens + cached, "output_tokens": usage.output_tokens}
        response["usage"] = {**counts, "total_tokens": usage.total_tokens}
    return cast(ResponseDict, response)


def _thought(part: ContentReasoning) -> str:
    """What can be read of reasoning: some providers encrypt it, with a summary."""
    return (getattr(part, "summary", None) or "") if part.redacted else part.reasoning


def _arguments(call: Any) -> str:
    """The text of a call's arguments; where Inspect could not read it, its error, which is not JSON either."""
    return f"({call.parse_error})" if call.parse_error else json.dumps(call.arguments, ensure_ascii=False)


def _tool(tool: dict[str, Any]) -> ToolInfo:
    if tool.get("type") != "function":
        raise UsageError(f"A tool of type {tool.get('type')!r} cannot be offered by Inspect: only functions can.")
    schema = tool.get("parameters") or {}
    parameters = _Inliner(schema).of(schema)
    fields = {
        name: parameters[name] for name in ("properties", "required", "additionalProperties") if name in parameters
    }
    return ToolInfo(
        name=tool["name"],
        description=tool.get("description") or "",
        parameters=ToolParams.model_validate({"additionalProperties": True, **fields}),
    )


class _Inliner:
    """Replaces the references of a schema by what they mean: Inspect's schemas have neither these nor `const`."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root, self._left = root, _MOST_PARTS

    def of(self, schema: Any, inside: tuple[str, ...] = ()) -> Any:
        """Return a part; a reference to what it is inside of allows anything."""
        self._left -= 1
        if self._left < 0:
            raise UsageError(f"A schema has more than {_MOST_PARTS:,} parts when its references are replaced.")
        if isinstance(schema, list):
            return [self.of(each, inside) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if isinstance(target := schema.get("$ref"), str):
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            return {} if target in inside else self.of({**self._found(target), **beside}, (*inside, target))
        inlined: dict[str, Any] = {}
        for name, value in schema.items():
            if name == "properties" and isinstance(value, dict):
                inlined[name] = {each: self.of(inner, inside) for each, inner in value.items()}
            elif name == "const":
                inlined["enum"] = [value]
            elif name in _VALUES:
                inlined[name] = value
            elif name == "allOf" and isinstance(value, list) and len(value) == 1:
                inlined |= self.of(value[0], inside)
            elif name not in ("$defs", "definitions"):
                inlined["anyOf" if name == "oneOf" else name] = self.of(value, inside)
        return inlined

    def _found(self, target: str) -> dict[str, Any]:
        found: Any = self._root
        for name in target.removeprefix("#/").split("/"):
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}
