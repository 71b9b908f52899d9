"""Run by the Python that has the frameworks: agents that force calls play with the pocket model, through capture."""

import asyncio
import json
import sys
import warnings

from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import NativeOutput
from pydantic_ai.providers.openai import OpenAIProvider
from smolagents import LogLevel, OpenAIServerModel, Tool, ToolCallingAgent

import gym_llm
from gym_llm.agents import AgentEpisode
from gym_llm.agents.run_agent import SyncEpisode

EPISODES = 2
SETTINGS = {"temperature": 0.7, "max_tokens": 400}


class Report(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=20)
    is_cold: bool


def typed(output_type):
    async def agent(episode: AgentEpisode) -> str:
        provider = OpenAIProvider(base_url=episode.base_url, api_key=episode.api_key)
        model = OpenAIChatModel(episode.model, provider=provider, settings=SETTINGS)
        try:
            report = (await Agent(model, output_type=output_type, retries=3).run(episode.prompt)).output
        except UnexpectedModelBehavior:  # the model was cut off while it thought
            return "none"
        assert isinstance(report, Report)
        return report.model_dump_json()

    return agent


class Look(Tool):
    """Looks the weather up."""

    name, description, output_type = "get_weather", "Look up the weather of a city.", "string"
    inputs = {"city": {"type": "string", "description": "The city."}}

    def forward(self, city: str) -> str:
        """Look."""
        return f"The weather in {city} is cold."


def as_it_comes(episode: SyncEpisode) -> str:
    """The agent that smolagents makes without options: it forces a call in each turn."""
    model = OpenAIServerModel(episode.model, episode.base_url, episode.api_key, **SETTINGS)
    assistant = ToolCallingAgent([Look()], model, max_steps=3, verbosity_level=LogLevel.OFF)
    return str(assistant.run(episode.prompt))


async def main(agent):
    options = {"max_new_tokens": 400}
    rollouts = gym_llm.rollout(
        "gym_llm/Weather-v0", "pocket", agent=agent, limit=EPISODES, agent_timeout=200, engine_options=options
    )
    return [record async for record in rollouts]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    agents = {"tool": typed(Report), "native": typed(NativeOutput(Report)), "smolagents": as_it_comes}
    records = asyncio.run(main(agents[sys.argv[1]]))
    assert all(record["error"] is None for record in records), [record["error"] for record in records]
    branches = [branch for record in records for branch in record["trajectory"]]
    answers = [item for record in records for item in record["response"]["output"] if item["type"] == "message"]
    texts = [item["content"][0]["text"] for item in answers]
    made = sum(text.startswith("{") and Report.model_validate_json(text) is not None for text in texts)
    assert all(sum(branch["constrained"]) <= sum(branch["loss_mask"]) for branch in branches)
    forced = sum(1 in branch["constrained"] for branch in branches)
    print(json.dumps({"episodes": len(records), "reports": made, "forced": forced > 0}))
