"""Play with a Deep Agent over Anthropic's Messages API, with the environment's tools over MCP."""

import asyncio
import os
import sys

from deepagents import create_deep_agent
from langchain_anthropic import ChatAnthropic
from langchain_mcp_adapters.client import MultiServerMCPClient


async def main() -> None:
    """Play the task on standard input, and print the answer."""
    client = MultiServerMCPClient({"gym": {"url": os.environ["GYM_LLM_MCP_URL"], "transport": "streamable_http"}})
    model = ChatAnthropic(model=os.environ["ANTHROPIC_MODEL"], base_url=os.environ["ANTHROPIC_BASE_URL"])
    agent = create_deep_agent(model=model, tools=await client.get_tools())
    state = await agent.ainvoke({"messages": [("user", sys.stdin.read())]}, {"recursion_limit": 100})
    print(state["messages"][-1].text)


asyncio.run(main())
