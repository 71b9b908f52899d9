"""Play with an agent of Pydantic AI over Anthropic's Messages API, with the environment's tools over MCP."""

import os
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

agent = Agent(f"anthropic:{os.environ['ANTHROPIC_MODEL']}", toolsets=[MCPToolset(os.environ["GYM_LLM_MCP_URL"])])
print(agent.run_sync(sys.stdin.read()).output)
