"""The Model Context Protocol: tools of ours for whatever client speaks it, over HTTP."""

from gym_llm.mcp.endpoint import Endpoint
from gym_llm.mcp.messages import McpError
from gym_llm.mcp.toolbox import Caller, Toolbox, ToolResult

__all__ = ["Caller", "Endpoint", "McpError", "ToolResult", "Toolbox"]
