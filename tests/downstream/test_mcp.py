"""MCP's own clients, of both major versions, ask our endpoint."""

from __future__ import annotations

import asyncio
import re
import subprocess
from typing import Any

import pytest
from mcp_toolbox import PNG, Counters, serving
from peers import in_peer, peer_python
from testing import ROOT, row

from gym_llm.protocols.mcp import endpoint
from gym_llm.serve import EnvServer

MODES = [
    ("mcp1", "handshake", "2025-11-25"),
    ("mcp2", "legacy", "2025-11-25"),
    ("mcp2", "auto", "2026-07-28"),
    ("mcp2", "2026-07-28", "2026-07-28"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "mode", "version"), MODES)
def test_their_client_lists_and_calls_our_tools(
    peer: str, mode: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "STREAM_AFTER_SECONDS", 0.2)  # so that waiting for `wait` is a stream with comments

    async def main() -> tuple[dict[str, Any], bool, Counters]:
        counters = Counters()
        async with serving(counters) as (url, _):
            said = await asyncio.to_thread(in_peer, peer, "mcp_tools.py", url, mode)
            cancelled = [toolbox.cancelled.is_set() for toolbox in counters.ever]
            return said, any(cancelled), counters

    said, cancelled, counters = asyncio.run(main())
    assert said["waited"] == "waited" and cancelled
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


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["mcp1", "mcp2", "fastmcp"])
def test_their_clients_play_a_served_environment_each_an_episode_of_its_own(peer: str) -> None:
    tasks = [row(f"Count to {number}.", initial_count=0, expected_count=number) for number in range(4)]

    async def main() -> tuple[dict[str, Any], EnvServer]:
        async with EnvServer("gym_llm/Counter-v0", tasks=tasks, port=0, protocols=["mcp"]) as server:
            said = await asyncio.to_thread(in_peer, peer, "mcp_episode.py", f"{server.url}/mcp", peer)
            assert len(server.sessions) == 0  # each client has ended its own
            return said, server

    said, server = asyncio.run(main())
    assert said["rewards"] == [[1.0, 0.0]] * 4
    assert server.sessions.counts["scored"] == 8 and server.sessions.counts["opened"] == 8


@pytest.mark.slow
def test_the_client_of_the_documentation_plays() -> None:
    page = (ROOT / "docs" / "how-to" / "serve-mcp.md").read_text("utf-8")
    example = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    tasks = str(ROOT / "envs" / "weather" / "data" / "example.jsonl")

    async def main() -> str:
        async with EnvServer("gym_llm/Weather-v0", tasks=tasks, port=0, protocols=["mcp"]) as server:
            code = example.replace("http://127.0.0.1:8000", server.url)
            command = [str(peer_python("mcp2")), "-c", code]
            return await asyncio.to_thread(subprocess.check_output, command, text=True, timeout=60)

    assert asyncio.run(main()).splitlines() == ["What is the weather in Paris?", "1.0"]
