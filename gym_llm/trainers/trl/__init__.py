"""Environments inside TRL's GRPOTrainer (https://huggingface.co/docs/trl/grpo_trainer), in its three ways.

- `RolloutFunc`, a `rollout_func`: gym_llm plays the episodes on the weights being trained, and returns the token ids.
  Every feature of an environment works: tools, simulated users, any number of turns.
- `EnvironmentFactory`, an `environment_factory`: TRL generates and calls the environment's tools.
- `RewardFunc`, one of the `reward_funcs`: TRL generates, gym_llm only scores.

`scored_only` wraps other reward functions beside the last two. Each has a `dataset` of its environment's tasks for
`train_dataset`.

`RolloutWorker` is for TRL's AsyncGRPOTrainer: it plays the episodes while TRL trains.
"""

from __future__ import annotations

from gym_llm.trainers.trl.async_worker import RolloutWorker
from gym_llm.trainers.trl.environment_factory import EnvironmentFactory
from gym_llm.trainers.trl.masks import scored_only
from gym_llm.trainers.trl.reward_function import RewardFunc
from gym_llm.trainers.trl.rollout_func import RolloutFunc

__all__ = ["EnvironmentFactory", "RewardFunc", "RolloutFunc", "RolloutWorker", "scored_only"]
