"""Answer MCP's methods with a toolbox."""

from __future__ import annotations

from typing import Any

from gym_llm.protocols.mcp.content import mcp_messages, mcp_result, mcp_tool
from gym_llm.protocols.mcp.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, McpError, Message
from gym_llm.protocols.mcp.revisions import HANDSHAKE, SERVER_META, STATELESS, agreed
from gym_llm.protocols.mcp.toolbox import Toolbox
from gym_llm.version import __version__

PAGE = 200
"""The most tools in one list; `nextCursor` is where the next ones begin."""
_SERVER = {"name": "gym_llm", "version": __version__}
_ABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}}
_PROMPT = {"name": "task", "description": "What there is to do, as the environment's model is told."}
_NOT_KEPT = {"ttlMs": 0, "cacheScope": "private"}  # a list is of one client, and of now


async def initialized(message: Message, toolbox: Toolbox) -> dict[str, Any]:
    """Return the server's part of a handshake."""
    said = {"protocolVersion": agreed(message.params.get("protocolVersion")), "serverInfo": _SERVER}
    return {**said, "capabilities": _ABILITIES, **await _instructed(toolbox)}


async def answer(message: Message, toolbox: Toolbox, version: str) -> dict[str, Any]:
    """Return the result of a request.

    Args:
        message: The request; anything but `initialize`.
        toolbox: The caller's tools.
        version: The request's revision.

    Raises:
        McpError: If it cannot be answered.
    """
    if version in HANDSHAKE:
        return {} if message.method == "ping" else await _of_both(message, toolbox)
    if message.method == "server/discover":
        said = {"supportedVersions": [*STATELESS], "capabilities": _ABILITIES, "_meta": {SERVER_META: _SERVER}}
        result = {**said, **await _instructed(toolbox)}
    else:
        result = await _of_both(message, toolbox)
    lists = message.method == "server/discover" or message.method.endswith("/list")
    return {"resultType": "complete", **result, **(_NOT_KEPT if lists else {})}


async def _of_both(message: Message, toolbox: Toolbox) -> dict[str, Any]:
    params = message.params
    match message.method:
        case "tools/call":
            return mcp_result(await toolbox.call(_name(params), _arguments(params)))
        case "tools/list":
            tools = [tool for tool in await toolbox.list_tools() if tool.get("type", "function") == "function"]
            start = _cursor(params, len(tools))
            more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(tools) else {}
            return {"tools": [mcp_tool(tool) for tool in tools[start : start + PAGE]], **more}
        case "prompts/list":
            _cursor(params, 0)
            return {"prompts": [_PROMPT] if await toolbox.task() else []}
        case "prompts/get":
            items = await toolbox.task()
            if _name(params) != _PROMPT["name"] or not items:
                raise McpError(f"There is no prompt named {_name(params)!r:.100}.", INVALID_PARAMS)
            return {"description": _PROMPT["description"], "messages": mcp_messages(items)}
    raise McpError(f"There is no method {message.method!r:.100} here.", METHOD_NOT_FOUND)


async def _instructed(toolbox: Toolbox) -> dict[str, Any]:
    instructions = await toolbox.instructions()
    return {"instructions": instructions} if instructions else {}


def _name(params: dict[str, Any]) -> str:
    if isinstance(name := params.get("name"), str):
        return name
    raise McpError("The params have a `name`, a string.", INVALID_PARAMS)


def _arguments(params: dict[str, Any]) -> dict[str, Any]:
    arguments = params.get("arguments")
    if arguments is None:
        return {}
    if isinstance(arguments, dict):
        return arguments
    raise McpError("The `arguments` of a call are an object.", INVALID_PARAMS)


def _cursor(params: dict[str, Any], length: int) -> int:
    cursor = params.get("cursor")
    if cursor is None:
        return 0
    if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 9 and int(cursor) < length:
        return int(cursor)
    raise McpError("The `cursor` is invalid: send the last `nextCursor`.", INVALID_PARAMS)
