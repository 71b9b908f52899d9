"""An agent of smolagents (`pip install "smolagents[openai]"`), which is not async: it plays in a thread.

gym-llm rollout gym_llm/Weather-v0 --agent examples/agents/smolagents_agent.py:agent --show 1
"""

from typing import Any

from smolagents import LogLevel, OpenAIServerModel, Tool, ToolCallingAgent

from gym_llm.agents.run_agent import SyncEpisode


class EnvironmentTool(Tool):  # type: ignore[misc]
    """A tool of the episode's environment."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, episode: SyncEpisode, name: str, description: str, parameters: dict[str, Any], **_: Any) -> None:
        self.name, self.description = name, description
        self.inputs = {key: {"description": key, **value} for key, value in parameters["properties"].items()}
        self.episode = episode
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        """Call it."""
        return self.episode.call_tool(self.name, arguments)


def agent(episode: SyncEpisode) -> str:
    """Answer the user, with the environment's tools."""
    model = OpenAIServerModel(episode.model, episode.base_url, episode.api_key, tool_choice="auto")
    tools = [EnvironmentTool(episode, **tool) for tool in episode.tools]
    assistant = ToolCallingAgent(tools, model, max_steps=6, verbosity_level=LogLevel.OFF)
    return str(assistant.run(episode.prompt))
