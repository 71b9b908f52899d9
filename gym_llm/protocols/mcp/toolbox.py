"""Toolbox: what an MCP endpoint serves: tools as in the Responses API, a task, and instructions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from gym_llm.types import Item


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, so that a server can find its tools.

    Attributes:
        http: The HTTP request: its path, its query and its headers.
        session_id: The id that the endpoint's `open_session` returned for the client's handshake. None before it, in
            the stateless revision, and without ids.
        version: The protocol's revision, e.g. `2025-11-25`.
        method: The method, e.g. `tools/call`.
        meta: The message's `_meta`, in which a client may put fields of its own.
    """

    http: web.Request
    session_id: str | None
    version: str
    method: str
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer of a tool.

    Attributes:
        output: Text, or content parts, as in a `function_call_output` item.
        is_error: Whether the call failed; the model reads the output all the same.
        structured: JSON values for programs: the same as the output, or more.
    """

    output: str | list[dict[str, Any]]
    is_error: bool = False
    structured: dict[str, Any] | None = None


class Toolbox(Protocol):
    """The tools of one client. Several calls may be under way at once."""

    async def instructions(self) -> str:
        """Return instructions for the client's model; "" for none."""
        ...

    async def task(self) -> list[Item]:
        """Return the model's task as input items, for the MCP prompt `task`; empty before it has one."""
        ...

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the function tools: `{"type": "function", "name", "description", "parameters"}`."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool. Any name and arguments are allowed: mistakes of the model are described in the result."""
        ...
