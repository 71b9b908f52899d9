"""Environments inside TRL's GRPOTrainer (https://huggingface.co/docs/trl/grpo_trainer), in the three ways it has.

- `RolloutFunc`, its `rollout_func`: we play the episodes, on the weights being trained, and hand over the token ids.
  Everything an environment can do works: tools, users who answer, any number of turns.
- `EnvironmentFactory`, its `environment_factory`: TRL generates and calls our tools.
- `RewardFunc`, one of its `reward_funcs`: TRL generates, we only score.

`scored_only` goes around other reward functions beside the last two. Each has a `dataset` of its environment's tasks,
made for `train_dataset`.

`RolloutWorker` is for TRL's AsyncGRPOTrainer: we play the episodes while it trains.
"""

from __future__ import annotations

from gym_llm.trainers.trl.async_worker import RolloutWorker
from gym_llm.trainers.trl.environment_factory import EnvironmentFactory
from gym_llm.trainers.trl.masks import scored_only
from gym_llm.trainers.trl.reward_function import RewardFunc
from gym_llm.trainers.trl.rollout_func import RolloutFunc

__all__ = ["EnvironmentFactory", "RewardFunc", "RolloutFunc", "RolloutWorker", "scored_only"]
