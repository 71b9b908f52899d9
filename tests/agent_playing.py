"""What tests of agents share: an engine, an environment with two tools, an agent, and one episode."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium as gym
from testing import row

import gym_llm
from gym_llm import VerifierEnv, tool
from gym_llm.agents import AgentEpisode
from gym_llm.engines import Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.errors import EngineError

WEATHER = "gym_llm/Weather-v0"
FOLLOW_UP = "gym_llm/FollowUp-v0"


class Says(Engine):
    """Says a text, with token ids: those of the prompt's length, then one."""

    model = "says"

    def __init__(self, text: str = "four", fails: list[EngineError | None] | None = None) -> None:
        self.text, self.fails, self.requests = text, fails or [], []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.requests.append(request)
        if self.fails and (error := self.fails.pop(0)) is not None:
            raise error
        prompt = list(range(len(request["input"])))
        return text_response(self.text, tokens=(prompt, [7], [-0.5]), model=self.model)


class Two(VerifierEnv):
    """Two tools; its reward is how many calls were made in the largest turn, and the answer is in the info."""

    default_max_turns = 4

    def setup(self, task: Any) -> list[str]:
        return []

    @tool
    def left(self, state: list[str], number: int = 0) -> str:
        """Go left."""
        state.append(f"left {number}")
        return f"went left {number}"

    @tool
    async def right(self) -> str:
        """Go right."""
        await asyncio.sleep(0)
        return "went right"

    def verify(self, task: Any, episode: Any) -> Any:
        turns = [0]
        for item in episode.items:
            turns[-1:] = [turns[-1] + 1] if item.get("type") == "function_call" else [turns[-1], 0]
        return gym_llm.Verdict(float(max(turns)), {"answer": episode.answer})


gym.register("agent_tests/Two-v0", Two)


def play(agent: Any, engine: Any = None, env_id: str = "agent_tests/Two-v0", **more: Any) -> Any:
    """One episode's record."""
    tasks = None if env_id == WEATHER else more.pop("tasks", [row("Which way?")])
    engine = engine or Says()

    async def collected() -> list[Any]:
        return [record async for record in gym_llm.rollout(env_id, engine, agent=agent, tasks=tasks, **more)]

    (record,) = asyncio.run(collected())
    return record


async def follows(episode: AgentEpisode) -> None:
    """Does exactly what the model says."""
    request: Any = episode.request
    while request is not None:
        request = await episode.step(await episode.respond(request))


def counts(record: Any) -> tuple[int, int]:
    """The numbers of an agent's calls and of the branches that they make."""
    agent = record["info"]["agent"]
    assert len(agent["calls"]) <= agent["model_calls"]
    return agent["model_calls"], agent["branches"]
