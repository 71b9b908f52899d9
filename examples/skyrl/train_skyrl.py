"""GRPO with SkyRL on gym_llm/Weather-v0, several rows per episode: see README.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ray
from skyrl.backends.skyrl_train.inference_servers.utils import resolve_policy_model_name
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray

from gym_llm.trainers.shared.trainer_tasks import TrainedEnv
from gym_llm.trainers.skyrl import EpisodeGenerator

ENV_ID = "gym_llm/Weather-v0"


class Experiment(BasePPOExp):
    """SkyRL's experiment, whose episodes are ours."""

    def get_generator(self, cfg: SkyRLTrainConfig, tokenizer: Any, inference_engine_client: Any) -> EpisodeGenerator:
        """What plays the episodes."""
        return EpisodeGenerator(
            TrainedEnv(ENV_ID),
            cfg.generator,
            inference_engine_client,
            tokenizer,
            policy_model_name=resolve_policy_model_name(cfg),
        )


def overrides() -> list[str]:
    """SkyRL's settings: config.txt, `name=value` a line, and what the command line says over them."""
    lines = (Path(__file__).parent / "config.txt").read_text("utf-8").splitlines()
    return [*(line for line in lines if line and not line.startswith("#")), *sys.argv[1:]]


def write_tasks(cfg: SkyRLTrainConfig, train: int = 2048, held_out: int = 128) -> None:
    """Write the tasks to the files that `data.train_data` and `data.val_data` name."""
    env = TrainedEnv(ENV_ID)
    env.dataset(train, seed=0).to_json(cfg.data.train_data[0])
    env.dataset(held_out, seed=1).to_json(cfg.data.val_data[0])


@ray.remote(num_cpus=1)
def train(cfg: SkyRLTrainConfig) -> None:
    """Train, in a process of Ray's, as SkyRL's own entry points do."""
    Experiment(cfg).run()


def main() -> None:
    """Train by config.txt and the command line."""
    cfg = SkyRLTrainConfig.from_cli_overrides(overrides())
    validate_cfg(cfg)
    write_tasks(cfg)
    initialize_ray(cfg)
    ray.get(train.remote(cfg))


if __name__ == "__main__":
    main()
