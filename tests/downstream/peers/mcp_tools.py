"""With one of MCP's own clients, 1.x's or 2.x's: the tools, the task and the calls of a server whose URL is given.

Arguments: the URL, and the way of connecting (`auto`, `legacy`, a revision; or `handshake`, which is all that 1.x has).
"""

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager

URL, MODE = sys.argv[1:3]
CALLS = 200


@asynccontextmanager
async def connected():
    """A session of the client, and the revision that it agreed on."""
    if MODE == "handshake":
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(URL) as (read, write, _), ClientSession(read, write) as session:
            done = await session.initialize()
            yield session, done.protocolVersion, done.instructions
    else:
        from mcp import Client

        async with Client(URL, mode=MODE) as client:
            yield client, client.protocol_version, client.instructions


def camel(value):
    """A result of either client in MCP's own names."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    async with connected() as (client, version, instructions):
        tools = camel(await client.list_tools())["tools"]
        prompts = camel(await client.list_prompts())["prompts"]
        task = camel(await client.get_prompt("task"))["messages"]
        results = [camel(await client.call_tool("add", {"by": 2})), camel(await client.call_tool("show", {}))]
        results.append(camel(await client.call_tool("nothing é", {})))
        try:
            await client.call_tool("break", {})
        except Exception as error:
            broken = type(error).__name__
        many = await asyncio.gather(*[client.call_tool("add", {"by": 1}) for _ in range(16)])
        counts = sorted(camel(each)["structuredContent"]["count"] for each in many)
        waited = camel(await client.call_tool("wait", {"seconds": 0.7}))["content"][0]["text"]
        try:
            async with asyncio.timeout(0.3):
                await client.call_tool("wait", {})
        except TimeoutError:
            pass  # 2.x cancels the call, by a notification or by leaving; 1.x says nothing of it
        start = time.perf_counter()
        for _ in range(CALLS):
            await client.call_tool("add", {"by": 1})
        rate = CALLS / (time.perf_counter() - start)
    said = {"version": version, "instructions": instructions, "tools": tools, "prompts": prompts, "task": task}
    said |= {"results": results, "broken": broken, "counts": counts, "waited": waited}
    print(json.dumps({**said, "calls_per_second": rate}))


asyncio.run(main())
