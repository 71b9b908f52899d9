"""Requests of Anthropic's Messages API as requests of ours; the answers are in `gym_llm.protocols.messages.dialect`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gym_llm.protocols.chat.chat_messages import MALFORMED, as_text, output_text
from gym_llm.protocols.dialect import Body, Refusal
from gym_llm.protocols.messages.thinking_blocks import UNPARSED, reasoning_item
from gym_llm.protocols.responses.request_checks import checked
from gym_llm.records.failures import reason
from gym_llm.types import Item, Request

_SERVERS_OWN = ("code_execution_", "mcp_toolset", "tool_search_tool_", "web_fetch_", "web_search_")
"""Tools that Anthropic's own servers run. They would not run here, so the model is not shown them."""

_BILLING = "x-anthropic-billing-header:"
"""The beginning of a system text that Claude Code writes for Anthropic's accounts; it differs in each request."""

_EFFORTS = {"xhigh": "high", "max": "high"}


def read(body: Body) -> Request:
    """Return the request of a body of `POST /v1/messages`; see `Dialect.read`.

    `is_error` of a tool's result is dropped: the text says what went wrong. A thinking budget is dropped, too;
    `thinking` that is `disabled` becomes the reasoning effort `none`.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("`messages` is a list of at least one message.", param="messages")
    key: str = "messages"
    try:
        request: dict[str, Any] = {"input": [item for message in messages for item in _items(message)]}
        for key, value in body.items():
            if value is not None:
                _FIELDS.get(key, dict.__setitem__)(request, key, value)
    except Refusal:
        raise
    except MALFORMED as error:
        raise Refusal(f"`{key}` is invalid in the Messages API ({reason(error)}).", param=key) from None
    return checked(request)


# -- messages ----------------------------------------------------------------------------------------------------------


def _items(message: dict[str, Any]) -> Iterator[Item]:
    """The items that say what a message says."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise Refusal(f"A message's role is user or assistant, got {role!r:.80}.", param="messages")
    if isinstance(content, str):
        blocks: list[dict[str, Any]] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        blocks = content
    else:
        raise Refusal(f"A message's content is a text or a list of blocks, got {content!r:.80}.", param="messages")
    parts: list[dict[str, Any]] = []  # of the message that is being read
    for block in blocks:
        kind = block["type"]
        if (of_block := _BLOCKS.get(kind)) is not None:
            if parts:
                yield _message(role, parts)
                parts = []
            if (item := of_block(block)) is not None:
                yield item
        elif role == "assistant":
            if kind != "text":
                raise Refusal(f"A model's message cannot have a block of type {kind!r:.80} here.", param="messages")
            parts.append(output_text(_text(block)))
        else:
            parts.extend(_parts(block))
    if parts or not blocks:
        yield _message(role, parts)


def _message(role: str, parts: list[dict[str, Any]]) -> Item:
    if role == "assistant":
        return {"type": "message", "role": role, "content": parts}
    return {"role": role, "content": _content(parts)}


def _content(parts: list[dict[str, Any]]) -> Any:
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "input_text" else parts


def _parts(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The content parts that say what a block says."""
    match block["type"]:
        case "text":
            yield {"type": "input_text", "text": _text(block)}
        case "image":
            yield {"type": "input_image", **_image(block["source"])}
        case "document":
            yield from _document(block, block["source"])
        case "search_result":
            heading = f"{as_text(block.get('title', ''))}\n{as_text(block.get('source', ''))}"
            yield {"type": "input_text", "text": "\n".join([heading, *(_text(part) for part in block["content"])])}
        case "tool_reference":
            yield {"type": "input_text", "text": as_text(block.get("tool_name", ""))}
        case kind:
            raise Refusal(f"A block of type {kind!r:.80} is not allowed here.", param="messages")


def _text(block: dict[str, Any]) -> str:
    text = block["text"]
    if not isinstance(text, str):
        raise TypeError("the `text` of a text block is not a string")
    return text


def _image(source: dict[str, Any]) -> dict[str, Any]:
    match source["type"]:
        case "base64":
            return {"image_url": f"data:{source['media_type']};base64,{source['data']}"}
        case "url":
            return {"image_url": source["url"]}
        case "file":
            return {"file_id": source["file_id"]}
        case kind:
            raise Refusal(f"An image's source is base64, url or file, got {kind!r:.80}.", param="messages")


def _document(block: dict[str, Any], source: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match source["type"]:
        case "text":
            heading = [as_text(block[name]) for name in ("title", "context") if block.get(name)]
            yield {"type": "input_text", "text": "\n".join([*heading, as_text(source["data"])])}
        case "content":
            inner = source["content"]
            for part in [{"type": "text", "text": inner}] if isinstance(inner, str) else inner:
                yield from _parts(part)
        case "base64":
            data = f"data:{source['media_type']};base64,{source['data']}"
            yield {"type": "input_file", "filename": as_text(block.get("title") or "document.pdf"), "file_data": data}
        case "url":
            yield {"type": "input_file", "file_url": source["url"]}
        case "file":
            yield {"type": "input_file", "file_id": source["file_id"]}
        case kind:
            raise Refusal(f"A document cannot come from {kind!r:.80} here.", param="messages")


def _call(block: dict[str, Any]) -> Item:
    given = block.get("input", {})
    unparsed = given.get(UNPARSED) if isinstance(given, dict) and len(given) == 1 else None
    arguments = unparsed if isinstance(unparsed, str) else as_text({} if given is None else given)
    return {"type": "function_call", "call_id": block["id"], "name": block["name"], "arguments": arguments}


def _output(block: dict[str, Any]) -> Item:
    content = block.get("content")
    if isinstance(content, list):
        output = _content([part for inner in content for part in _parts(inner)])
    else:
        output = "" if content is None else as_text(content)
    return {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}


_BLOCKS: dict[str, Callable[[dict[str, Any]], Item | None]] = {
    "thinking": reasoning_item,
    "redacted_thinking": reasoning_item,
    "tool_use": _call,
    "tool_result": _output,
}
"""Blocks that become items of their own."""


# -- parameters --------------------------------------------------------------------------------------------------------


def _set_system(request: dict[str, Any], _: str, system: Any) -> None:
    texts = [system] if isinstance(system, str) else [_text(block) for block in system]
    if text := "\n\n".join(text for text in texts if not text.startswith(_BILLING)):
        request["instructions"] = text


def _set_tools(request: dict[str, Any], _: str, tools: list[dict[str, Any]]) -> None:
    functions = []
    for tool in tools:
        kind = tool.get("type") or "custom"
        if kind == "custom":
            function = {"type": "function", "name": tool["name"], "description": tool.get("description")}
            function |= {"parameters": tool.get("input_schema"), "strict": tool.get("strict")}
            functions.append({name: value for name, value in function.items() if value is not None})
        elif not kind.startswith(_SERVERS_OWN):
            raise Refusal(
                f"The tool {kind!r:.80} has no schema here: give it a name and an `input_schema`.", param="tools"
            )
    if functions:
        request["tools"] = functions


def _set_tool_choice(request: dict[str, Any], _: str, choice: dict[str, Any]) -> None:
    match choice["type"]:
        case "auto" | "none" as same:
            request["tool_choice"] = same
        case "any":
            request["tool_choice"] = "required"
        case "tool":
            request["tool_choice"] = {"type": "function", "name": choice["name"]}
        case kind:
            raise Refusal(f"A tool choice is auto, any, tool or none, got {kind!r:.80}.", param="tool_choice")
    if choice.get("disable_parallel_tool_use"):
        request["parallel_tool_calls"] = False


def _set_thinking(request: dict[str, Any], _: str, thinking: dict[str, Any]) -> None:
    if thinking["type"] == "disabled":
        request["reasoning"] = {"effort": "none"}


def _set_format(request: dict[str, Any], _: str, form: dict[str, Any]) -> None:
    if form["type"] != "json_schema":
        raise Refusal(f"An output format is a json_schema, got {form['type']!r:.80}.", param="output_config")
    schema = {"type": "json_schema", "name": "answer", "schema": form["schema"], "strict": True}
    request["text"] = {"format": schema}


def _set_output(request: dict[str, Any], name: str, config: dict[str, Any]) -> None:
    if effort := config.get("effort"):
        request.setdefault("reasoning", {"effort": _EFFORTS.get(effort, effort)})
    if form := config.get("format"):
        _set_format(request, name, form)


def _refuse_servers(request: dict[str, Any], name: str, servers: Any) -> None:
    if servers:
        raise Refusal("This server does not call MCP servers: send their tools in `tools`.", param=name)


def _drop(request: dict[str, Any], name: str, value: Any) -> None:
    """Leave out what is about the server and its bill, or said elsewhere."""


_FIELDS: dict[str, Callable[[dict[str, Any], str, Any], None]] = {
    **dict.fromkeys(("messages", "model", "stream", "metadata", "service_tier", "cache_control", "container"), _drop),
    **dict.fromkeys(("betas", "anthropic_beta", "anthropic_version", "context_management", "diagnostics"), _drop),
    **dict.fromkeys(("inference_geo", "speed", "user_profile_id", "workspace_id", "return_token_ids", "user"), _drop),
    "mcp_servers": _refuse_servers,
    "system": _set_system,
    "tools": _set_tools,
    "tool_choice": _set_tool_choice,
    "thinking": _set_thinking,
    "output_config": _set_output,
    "output_format": _set_format,
    "max_tokens": lambda request, _, limit: request.update(max_output_tokens=limit),
    "stop_sequences": lambda request, _, stops: request.update(stop=stops) if stops else None,
}
"""The request fields for a body's fields; others keep their names (`temperature`, `top_k`)."""
