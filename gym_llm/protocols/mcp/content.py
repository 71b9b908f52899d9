"""Between Responses and MCP: tools, what tools answer, and the messages of a prompt."""

from __future__ import annotations

import re
from typing import Any

from gym_llm.protocols.mcp.toolbox import ToolResult
from gym_llm.types import Item
from gym_llm.utils.json_codec import dumps

_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,")
_NO_PARAMETERS = {"type": "object", "properties": {}}


def mcp_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a function tool as MCP lists it.

    >>> mcp_tool({"type": "function", "name": "look", "description": "Look around.", "parameters": None})
    {'name': 'look', 'description': 'Look around.', 'inputSchema': {'type': 'object', 'properties': {}}}
    """
    described = {"description": tool["description"]} if tool.get("description") else {}
    schema = tool.get("parameters") or _NO_PARAMETERS
    return {"name": tool["name"], **described, "inputSchema": {**schema, "type": "object"}}


def mcp_result(result: ToolResult) -> dict[str, Any]:
    """Return a tool's answer in MCP's form."""
    parts = [result.output] if isinstance(result.output, str) else result.output
    said: dict[str, Any] = {"content": [_block(part) for part in parts], "isError": result.is_error}
    if result.structured is not None:
        said["structuredContent"] = result.structured
    return said


def mcp_messages(items: list[Item]) -> list[dict[str, Any]]:
    """Return items as the messages of a prompt: MCP has a user's and an assistant's, of one block each.

    >>> mcp_messages([{"role": "system", "content": "Be brief."}])
    [{'role': 'user', 'content': {'type': 'text', 'text': 'Be brief.'}}]
    """
    messages = []
    for item in items:
        content: Any = item.get("content")
        if item.get("type", "message") == "message":
            role = "assistant" if item.get("role") == "assistant" else "user"
            parts = [content] if isinstance(content, str) else content or []
        elif item["type"] == "function_call_output":
            output: Any = item.get("output")
            role, parts = "user", [output] if isinstance(output, str) else output or []
        else:
            role, parts = "assistant", [dumps(item).decode().strip()]
        messages += [{"role": role, "content": _block(part)} for part in parts]
    return messages


def _block(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    url = part.get("image_url")
    if isinstance(url, str) and (match := _DATA_URL.match(url)):
        return {"type": "image", "data": url[match.end() :], "mimeType": match[1]}
    text = part.get("text", part.get("refusal", url))
    return {"type": "text", "text": text if isinstance(text, str) else dumps(part).decode().strip()}
