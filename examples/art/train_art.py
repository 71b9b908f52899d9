"""Trains on one of our environments with ART: its vLLM samples, the environments are played here, it learns."""

import argparse
import asyncio
import inspect
from typing import Any

from art.dev.model import InternalModelConfig
from art.model import TrainableModel
from art.trajectories import TrajectoryGroup

import gym_llm
from gym_llm.engines import Engine
from gym_llm.trainers.art import CHAT_TEMPLATE, art_tokenizer, trajectory_group


def trained_model(base_model: str) -> TrainableModel:
    """What ART trains; the template belongs to `gym_llm.trainers.art`."""
    config = InternalModelConfig(chat_template=CHAT_TEMPLATE)
    names = {"name": "gym_llm", "project": "gym_llm"}
    if "run_name" in inspect.signature(TrainableModel.__init__).parameters:  # ART 0.5.19 and later
        names["run_name"] = "gym_llm"
    return TrainableModel(base_model=base_model, _internal_config=config, **names)


async def play(
    env: str, art_tokens: Any, engine: str | Engine, *, seed: int, groups: int, group_size: int, **options: Any
) -> list[TrajectoryGroup]:
    """Groups of episodes as ART takes them; it leaves out those without an advantage by itself."""
    stream = gym_llm.rollout(env, engine, engine_options=options, limit=groups, group_size=group_size, seed=seed)
    return [trajectory_group(records, art_tokens) async for records in stream]


async def train(base_model: str, env: str, steps: int) -> None:
    """The loop: play, train, and again."""
    from art.local import LocalBackend

    model, backend, tokenizer = trained_model(base_model), LocalBackend(), art_tokenizer(base_model)
    await model.register(backend)
    for step in range(steps):
        groups = await play(
            env,
            tokenizer,
            str(model.inference_base_url),
            seed=step,
            groups=32,
            group_size=8,
            model=model.get_inference_name(),
            api_key=model.inference_api_key,
            api="completions",
            tokenizer=base_model,
        )
        await backend.train(model, groups, learning_rate=5e-6)
        rewards = [episode.reward for group in groups for episode in group]
        print(f"step {step}: {len(groups)} groups, mean reward {sum(rewards) / max(len(rewards), 1):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="Qwen/Qwen3-4B")
    parser.add_argument("--env", default="gym_llm/Arithmetic-v0")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    asyncio.run(train(arguments.model, arguments.env, arguments.steps))
