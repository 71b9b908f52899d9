"""Play with LangChain's agent on LangGraph, with the environment's tools over MCP."""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main() -> None:
    """Play the task on standard input, and print the answer."""
    client = MultiServerMCPClient({"gym": {"url": os.environ["GYM_LLM_MCP_URL"], "transport": "streamable_http"}})
    agent = create_agent(ChatOpenAI(model=os.environ["OPENAI_MODEL"]), await client.get_tools())
    state = await agent.ainvoke({"messages": [("user", sys.stdin.read())]}, {"recursion_limit": 100})
    print(state["messages"][-1].text)


asyncio.run(main())
