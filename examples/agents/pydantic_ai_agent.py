"""An agent of pydantic-ai (`pip install "pydantic-ai-slim[openai,mcp]"`), with the environment's tools over MCP.

gym-llm rollout gym_llm/Weather-v0 --agent examples/agents/pydantic_ai_agent.py:agent --show 1
"""

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from gym_llm.agents import AgentEpisode


async def agent(episode: AgentEpisode) -> str:
    """Answer the user, with the environment's tools."""
    provider = OpenAIProvider(base_url=episode.base_url, api_key=episode.api_key)
    # What is returned is the answer, so that it need not be submitted.
    tools = MCPToolset(episode.mcp_url).filtered(lambda _, tool: tool.name != "submit")
    assistant = Agent(OpenAIChatModel(episode.model, provider=provider), toolsets=[tools])
    async with assistant:
        return (await assistant.run(episode.prompt)).output
