"""A Claude Agent SDK agent that uses the environment's tools over MCP; the model behind it is any engine.

    pip install claude-agent-sdk
    gym-llm rollout gym_llm/Weather-v0 --agent "python examples/agents/claude_agent.py" --engine http://localhost:8000/v1

The SDK's own tools take 40,000 tokens of every prompt, and with them it hides MCP tools until the model searches for
them. This agent has neither: no tools of the SDK, and no tool search.
"""

import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

OPTIONS = ClaudeAgentOptions(
    model=os.environ["ANTHROPIC_MODEL"],
    mcp_servers={"gym": {"type": "http", "url": os.environ["GYM_LLM_MCP_URL"]}},
    tools=[],
    permission_mode="bypassPermissions",
    setting_sources=[],
    env={"ENABLE_TOOL_SEARCH": "false"},
    max_turns=8,
)


async def main() -> None:
    """Play the task on standard input, and print the answer."""
    async for message in query(prompt=sys.stdin.read(), options=OPTIONS):
        if isinstance(message, ResultMessage):
            print(message.result or "")


asyncio.run(main())
