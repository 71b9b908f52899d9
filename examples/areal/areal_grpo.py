"""GRPO on Arithmetic-v0: `PYTHONPATH=. python areal_grpo.py --config grpo.yaml`."""

import sys
from typing import Any

from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.trainer.rl_trainer import PPOTrainer

from gym_llm.trainers.shared.trainer_tasks import TrainedEnv

ENV_ID = "gym_llm/Arithmetic-v0"
GROUP_SIZE = 8  # gconfig.n_samples


def is_complete(group: dict[str, Any]) -> bool:
    """Whether no episode of a group is masked: AReaL's norms count off rows, and would mix groups up."""
    return len(group["input_ids"]) == GROUP_SIZE


def main(argv: list[str]) -> None:
    """Train with the configuration that the command line names."""
    config, _ = load_expr_config(argv, GRPOConfig)
    arithmetic = TrainedEnv(ENV_ID)
    arguments = {"env_id": ENV_ID, "gconfig": config.gconfig, "tokenizer": config.tokenizer_path}
    with PPOTrainer(config, train_dataset=arithmetic.dataset(2048)) as trainer:
        trainer.train(
            workflow="gym_llm.trainers.areal.EpisodeWorkflow",
            workflow_kwargs=arguments,
            dynamic_filter_fn="areal_grpo.is_complete",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
