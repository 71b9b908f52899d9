"""An agent of the OpenAI Agents SDK (`pip install openai-agents`), with the environment's tools over MCP.

gym-llm rollout gym_llm/Weather-v0 --agent examples/agents/openai_agents_sdk.py:agent --show 1
"""

# mypy: disable-error-code="attr-defined"
# This folder's name is that of their package.
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp, create_static_tool_filter
from openai import AsyncOpenAI

from gym_llm.agents import AgentEpisode

set_tracing_disabled(True)  # traces go to OpenAI, with a key of theirs


async def agent(episode: AgentEpisode) -> str:
    """Answer the user, with the environment's tools."""
    async with (
        AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key) as client,
        MCPServerStreamableHttp(
            {"url": episode.mcp_url},
            client_session_timeout_seconds=60,
            tool_filter=create_static_tool_filter(blocked_tool_names=["submit"]),  # what is returned is the answer
        ) as tools,
    ):
        model = OpenAIChatCompletionsModel(episode.model, client)
        run = await Runner.run(Agent(name="Assistant", model=model, mcp_servers=[tools]), episode.prompt)
    return str(run.final_output)
