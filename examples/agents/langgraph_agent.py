"""A ReAct agent of LangGraph (`pip install langgraph langchain-openai`), with the environment's tools as functions.

gym-llm rollout gym_llm/Weather-v0 --agent examples/agents/langgraph_agent.py:agent --show 1
"""

from typing import Any

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from gym_llm.agents import AgentEpisode


async def agent(episode: AgentEpisode) -> str:
    """Answer the user, with the environment's tools."""
    model = ChatOpenAI(model=episode.model, base_url=episode.base_url, api_key=episode.api_key)
    graph = create_react_agent(model, [_tool(episode, **tool) for tool in episode.tools])
    state = await graph.ainvoke({"messages": [("user", episode.prompt)]})
    return str(state["messages"][-1].content)


def _tool(episode: AgentEpisode, name: str, description: str, parameters: dict[str, Any], **_: Any) -> StructuredTool:
    async def call(**arguments: Any) -> str:
        return await episode.call_tool(name, arguments)

    return StructuredTool(name=name, description=description, args_schema=parameters, coroutine=call)
