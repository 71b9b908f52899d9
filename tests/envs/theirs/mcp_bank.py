"""An MCP server of the official package; with the argument `ends` its process ends at a call."""

from __future__ import annotations

import os
import sys
from typing import Any

from mcp.server.mcpserver import MCPServer

server: Any = MCPServer("bank")
left = 10


@server.tool()
def transfer(amount: int) -> str:
    """Move money."""
    global left
    if sys.argv[1] == "ends":
        os._exit(3)
    left -= amount
    return f"left: {left}"


server.run()
