"""Trains on one of our environments with the Tinker cookbook, which samples and trains on Tinker's own machines."""

import asyncio
import sys

import chz
from tinker_cookbook import cli_utils
from tinker_cookbook.rl import train
from tinker_cookbook.rl.rollout_strategy import MinViableGroup

from gym_llm.trainers.tinker import TinkerDatasetBuilder

MODEL = "Qwen/Qwen3-8B"


def config_blueprint(model: str = MODEL, env: str = "gym_llm/Weather-v0") -> chz.Blueprint[train.Config]:
    """What is trained, and how; each value can be set on the command line."""
    return chz.Blueprint(train.Config).apply(
        {
            "model_name": model,
            "recipe_name": "gym_llm",
            "log_path": "runs/tinker",
            "dataset_builder": TinkerDatasetBuilder(env_id=env, model_name=model, limit=2048, test_limit=64),
            "learning_rate": 4e-5,
            "max_tokens": 1024,
            "remove_constant_reward_groups": True,
            "rollout_error_tolerance": MinViableGroup(),  # a masked episode leaves its group
        }
    )


if __name__ == "__main__":
    blueprint = config_blueprint(cli_utils.model_name_from_argv(sys.argv[1:], default=MODEL))
    blueprint.make_from_argv(sys.argv[1:])
    asyncio.run(train.main(blueprint.make()))
