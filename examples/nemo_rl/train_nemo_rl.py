"""GRPO with NeMo RL's own multi-turn loop on gym_llm/Weather-v0: see README.md."""

from __future__ import annotations

import argparse
from typing import Any

from gym_llm.trainers.nemo_rl import TextEnvironment, nemo_rl_data
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv

ENV_ID = "gym_llm/Weather-v0"
TASK = "weather"


def data(tokenizer: Any, train: int, held_out: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tasks to train on, and others to evaluate on."""
    env = TrainedEnv(ENV_ID)
    return nemo_rl_data(env, tokenizer, TASK, train), nemo_rl_data(env, tokenizer, TASK, held_out, seed=1)


def main() -> None:
    """Train by a configuration file of NeMo RL's and what the command line says over it."""
    import ray
    from nemo_rl.algorithms.grpo import MasterConfig, grpo_train, setup
    from nemo_rl.algorithms.utils import get_tokenizer, set_seed
    from nemo_rl.distributed.virtual_cluster import init_ray
    from nemo_rl.models.generation import configure_generation_config
    from nemo_rl.utils.config import load_config, parse_hydra_overrides, register_omegaconf_resolvers
    from omegaconf import OmegaConf

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="weather.yaml, in NeMo RL's examples/configs")
    args, overrides = parser.parse_known_args()
    register_omegaconf_resolvers()
    loaded = parse_hydra_overrides(load_config(args.config), overrides)
    config = MasterConfig(**OmegaConf.to_container(loaded, resolve=True))  # type: ignore[arg-type]
    init_ray()
    set_seed(config.grpo.seed)
    tokenizer = get_tokenizer(config.policy["tokenizer"])
    config.policy["generation"] = configure_generation_config(config.policy["generation"], tokenizer)
    train, held_out = data(tokenizer, 2048, config.grpo.max_val_samples)
    environment = ray.remote(TextEnvironment).remote(ENV_ID, tokenizer)
    policy, generation, _, _, loader, val_loader, loss, logger, checkpointer, state, config, *_ = setup(
        config, tokenizer, train, held_out
    )
    environments = {TASK: environment}
    grpo_train(
        policy,
        generation,
        loader,
        val_loader,
        tokenizer,
        loss,
        environments,
        environments,
        logger,
        checkpointer,
        state,
        config,
    )


if __name__ == "__main__":
    main()
