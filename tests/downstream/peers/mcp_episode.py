"""With one of MCP's own clients, or FastMCP's: four clients at once play a served Counter, each its own task.

Arguments: the URL, and the client: `mcp1`, `mcp2` or `fastmcp`.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager

URL, CLIENT = sys.argv[1:3]


@asynccontextmanager
async def connected(url):
    """Functions that name the tools, and call one and give its structured result; and the server's instructions."""
    async with AsyncExitStack() as stack:
        if CLIENT == "mcp1":
            from mcp import ClientSession
            from mcp.client.streamable_http import streamable_http_client

            read, write, _ = await stack.enter_async_context(streamable_http_client(url))
            client = await stack.enter_async_context(ClientSession(read, write))
            instructions = (await client.initialize()).instructions
        elif CLIENT == "mcp2":
            from mcp import Client

            client = await stack.enter_async_context(Client(url))
            instructions = client.instructions
            assert client.protocol_version == "2025-11-25", "a client that may choose is given a session"
        else:
            from fastmcp import Client

            client = await stack.enter_async_context(Client(url))
            instructions = client.initialize_result.instructions

        async def tools():
            listed = await client.list_tools()
            return [tool.name for tool in (listed if isinstance(listed, list) else listed.tools)]

        async def call(name, **arguments):
            result = await client.call_tool(name, arguments)
            return result.structured_content if hasattr(result, "structured_content") else result.structuredContent

        yield tools, call, instructions


async def play(index):
    """Play task `index` as its address names it, and then the one after it by `reset`."""
    rewards = []
    async with connected(f"{URL}?task_index={index}") as (tools, call, instructions):
        assert f"Count to {index}." in instructions, instructions
        assert await tools() == ["increment_counter", "get_counter_value", "submit"]
        for _ in range(index):
            await call("increment_counter", count=1)
            await asyncio.sleep(0.01)
        rewards.append((await call("submit", answer="done"))["reward"])
    async with connected(URL) as (tools, call, instructions):
        assert "reset" in await tools()
        begun = await call("reset", task_index=index)
        assert begun["task_index"] == index
        await call("increment_counter", count=index + 1)
        rewards.append((await call("submit", answer="done"))["reward"])
    return rewards


async def main():
    print(json.dumps({"rewards": await asyncio.gather(*map(play, range(4)))}))


asyncio.run(main())
