"""What an MCP endpoint serves: tools, as Responses has them, a task, and a few words about both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from gym_llm.types import Item


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, so that a server can tell whose tools these are.

    Attributes:
        http: The HTTP request: its path, its query and its headers.
        session_id: What the endpoint's `open_session` returned for this client's handshake; None before it, in the
            stateless revision, and where no ids are given.
        version: The protocol's revision, e.g. `2025-11-25`.
        method: What is asked, e.g. `tools/call`.
        meta: The message's `_meta`, which a client may put fields of its own into.
    """

    http: web.Request
    session_id: str | None
    version: str
    method: str
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered.

    Attributes:
        output: Text, or content parts, as a `function_call_output` item has it.
        is_error: Whether it says that the call failed; a model reads it all the same.
        structured: The same, or more, for programs; JSON values.
    """

    output: str | list[dict[str, Any]]
    is_error: bool = False
    structured: dict[str, Any] | None = None


class Toolbox(Protocol):
    """The tools of one client. Several calls may be under way at once."""

    async def instructions(self) -> str:
        """What a client should tell its model about these tools; "" for nothing."""
        ...

    async def task(self) -> list[Item]:
        """What the model is to do, as input items: the MCP prompt `task`; empty if there is none (yet)."""
        ...

    async def list_tools(self) -> list[dict[str, Any]]:
        """The function tools: `{"type": "function", "name", "description", "parameters"}`."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call one, whatever the name and the arguments; what a model got wrong is a result that says so."""
        ...
