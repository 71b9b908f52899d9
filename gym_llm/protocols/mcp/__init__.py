"""The Model Context Protocol: tools of ours for whatever client speaks it, over HTTP."""

from gym_llm.protocols.mcp.endpoint import Endpoint
from gym_llm.protocols.mcp.jsonrpc import McpError
from gym_llm.protocols.mcp.toolbox import Caller, Toolbox, ToolResult

__all__ = ["Caller", "Endpoint", "McpError", "ToolResult", "Toolbox"]
