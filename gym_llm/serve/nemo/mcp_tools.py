"""SessionToolbox: the tools of a session over MCP, for agents that call tools only that way."""

from __future__ import annotations

from typing import Any

from gym_llm.protocols.mcp import McpError, ToolResult
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed, EpisodeSession
from gym_llm.serve.served_tool_calls import call_tool
from gym_llm.serve.sessions import Sessions, UnknownSession
from gym_llm.types import Item
from gym_llm.utils.json_codec import dumps

FAILED_TOOL = "The tool has failed, and the episode with it: it will not be scored."


class SessionToolbox:
    """The tools of a seeded session. As over HTTP a call is not a turn: /verify ends the episode.

    Args:
        sessions: The server's sessions.
        session: The client's session.
        tools: The tools that the model is offered.
    """

    def __init__(self, sessions: Sessions, session: EpisodeSession, tools: list[dict[str, Any]]) -> None:
        self._sessions = sessions
        self._session = session
        self._tools = tools

    async def instructions(self) -> str:
        """Return "": the agent gets its task elsewhere."""
        return ""

    async def task(self) -> list[Item]:
        """Return an empty list: the agent gets its task elsewhere."""
        return []

    async def list_tools(self) -> list[dict[str, Any]]:
        """The episode's tools."""
        return self._tools

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call one."""
        try:
            session = self._sessions.get(self._session.id)  # it may have ended since
            text, is_error = await call_tool(session, name, dumps(arguments).decode().strip())
        except UnknownSession as error:
            raise McpError(str(error), status=404) from None
        except BadRequest as error:
            return ToolResult(str(error), is_error=True)
        except EpisodeFailed:  # what the author got wrong is not told to the model
            return ToolResult(FAILED_TOOL, is_error=True)
        return ToolResult(text, is_error=is_error)
