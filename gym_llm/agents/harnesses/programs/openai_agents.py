"""Play with an agent of OpenAI's Agents SDK, over the Responses API, with the environment's tools over MCP."""

import asyncio
import os
import sys

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp


async def main() -> None:
    """Play the task on standard input, and print the answer."""
    url = os.environ["GYM_LLM_MCP_URL"]
    async with MCPServerStreamableHttp({"url": url}, client_session_timeout_seconds=600) as server:
        agent = Agent(name="agent", model=os.environ["OPENAI_MODEL"], mcp_servers=[server])
        result = await Runner.run(agent, sys.stdin.read(), max_turns=50)
    print(result.final_output)


asyncio.run(main())
