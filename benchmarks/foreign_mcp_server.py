"""A bank as an MCP server of the official package, for `foreign_tasks.py`: it needs only that package."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

server: Any = MCPServer("bank")
accounts = {"a": 10, "b": 0}
moved: list[dict[str, Any]] = []


@server.tool()
def transfer(src: str, dst: str, amount: int) -> str:
    """Move money."""
    if accounts[src] < amount:
        raise ValueError("not enough")
    accounts[src] -= amount
    accounts[dst] += amount
    moved.append({"src": src, "dst": dst, "amount": amount})
    return f"{amount} €"


@server.tool()
def balance(name: str) -> int:
    """Return the balance of an account."""
    return accounts[name]


@server.tool()
def history() -> list[dict[str, Any]]:
    """Return what was moved."""
    return moved


if __name__ == "__main__":
    server.run()
