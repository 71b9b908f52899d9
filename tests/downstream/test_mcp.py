"""MCP's own clients, of both major versions, ask our endpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp_toolbox import PNG, Counters, serving
from peers import in_peer

MODES = [
    ("mcp1", "handshake", "2025-11-25"),
    ("mcp2", "legacy", "2025-11-25"),
    ("mcp2", "auto", "2026-07-28"),
    ("mcp2", "2026-07-28", "2026-07-28"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "mode", "version"), MODES)
def test_their_client_lists_and_calls_our_tools(peer: str, mode: str, version: str) -> None:
    async def main() -> tuple[dict[str, Any], Counters]:
        counters = Counters()
        async with serving(counters) as (url, _):
            return await asyncio.to_thread(in_peer, peer, "mcp_tools.py", url, mode), counters

    said, counters = asyncio.run(main())
    assert said["version"] == version
    # A revision that is not asked for its own words is not told them.
    assert said["instructions"] == (None if mode == "2026-07-28" else "Count.")
    assert [tool["name"] for tool in said["tools"]] == ["add"] and [each["name"] for each in said["prompts"]] == [
        "task"
    ]
    assert [message["content"]["text"] for message in said["task"]] == ["Be quick.", "Count to 3."]
    added, shown, unknown = said["results"]
    assert added["structuredContent"] == {"count": 2} and added["isError"] is False
    assert shown["content"][1] == {"type": "image", "data": PNG, "mimeType": "image/png"}
    assert unknown["isError"] is True and "nothing é" in unknown["content"][0]["text"]
    assert said["broken"] in ("McpError", "MCPError")
    assert said["counts"] == list(range(3, 19))
    assert len(counters.of) == 1  # the session of a handshake is over, as its client said
