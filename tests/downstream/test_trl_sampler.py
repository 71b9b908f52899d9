"""A TaskSampler chooses the tasks of TRL's GRPOTrainer."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import gymnasium as gym
import pytest
import torch
from testing import POCKET, row
from transformers import AutoModelForCausalLM, AutoTokenizer

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl import GRPOConfig, GRPOTrainer

from gym_llm import BaseTask, TaskSampler, VerifierEnv
from gym_llm.trainers.trl import RolloutFunc

pytestmark = pytest.mark.slow

GROUP, PROMPTS = 2, 2


class Pays(VerifierEnv):
    """Pays what its task says; a task without a price pays every second episode."""

    class Task(BaseTask):
        price: float | None

    paid = 0

    def verify(self, task: Any, episode: Any) -> float:
        Pays.paid += 1
        return float(Pays.paid % 2) if task.price is None else float(task.price)


gym.register("trl_sampler_tests/Pays-v0", Pays)
PRICES = (1.0, 1.0, 0.0, 0.0, None, 1.0)
TASKS = [row(f"{number} + 1?", price=price) for number, price in enumerate(PRICES)]
OPEN = PRICES.index(None)


def make_trainer(hook: Any, folder: Any, dataset: Any = None, **arguments: Any) -> Any:
    torch.manual_seed(0)
    config = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=GROUP * PROMPTS,
        num_generations=GROUP,
        max_completion_length=4,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        gradient_checkpointing=False,
        **arguments,
    )
    return GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32),
        args=config,
        train_dataset=hook.dataset() if dataset is None else dataset,
        processing_class=AutoTokenizer.from_pretrained(POCKET),
        rollout_func=hook,
        reward_funcs=[hook.reward, hook.watch],
    )


class Watched(RolloutFunc):
    """With a second reward function, which notes the columns that it gets."""

    def watch(self, prompts: Any, task_index: Any, task_probability: Any = None, **columns: Any) -> list[float]:
        tasks = [prompt[0]["task_index"] for prompt in prompts]
        self.batches = [*getattr(self, "batches", []), (tasks, list(task_index), task_probability)]
        return [0.0] * len(prompts)


def test_the_sampler_chooses_the_task_of_each_group_and_learns_from_all_rewards(tmp_path: Any) -> None:
    sampler = TaskSampler(share=0.01, seed=1)
    with Watched("trl_sampler_tests/Pays-v0", tasks=TASKS, sampler=sampler) as hook:
        # Each batch of episodes is used in two optimizer steps, twice.
        trainer = make_trainer(
            hook, tmp_path, max_steps=60, num_iterations=2, steps_per_generation=1, num_train_epochs=99
        )
        hook.choose_tasks(trainer)
        trainer.train()
    assert len(hook.batches) == 30
    for tasks, rows, odds in hook.batches:
        assert tasks == rows  # every reward function sees the task that was drawn
        assert len(tasks) == GROUP * PROMPTS and tasks[::GROUP] == tasks[1::GROUP] and odds[::GROUP] == odds[1::GROUP]
        assert all(0 < each <= 1 for each in odds)
    counts = Counter(task for tasks, *_ in hook.batches[15:] for task in tasks)
    assert counts[OPEN] > 0.3 * sum(counts.values())
    assert max(range(len(TASKS)), key=sampler.probability) == OPEN
    seen = sum(map(sum, sampler.state_dict()["tasks"].values())) - 2 * len(TASKS)
    assert 0 < seen <= 30 * GROUP * PROMPTS  # episodes of reused batches are not counted again


def test_evaluation_keeps_its_order_and_teaches_nothing(tmp_path: Any) -> None:
    sampler = TaskSampler()
    with Watched("trl_sampler_tests/Pays-v0", tasks=TASKS, sampler=sampler) as hook:
        trainer = make_trainer(hook, tmp_path, max_steps=1)
        hook.choose_tasks(trainer)
        before = sampler.state_dict()
        trainer.evaluate(hook.dataset(4))
        assert sampler.state_dict() == before
        assert sorted({task for tasks, *_ in hook.batches for task in tasks}) == [0, 1, 2, 3]


def test_who_forgets_to_choose_is_reminded(tmp_path: Any) -> None:
    with Watched("trl_sampler_tests/Pays-v0", tasks=TASKS, sampler=TaskSampler()) as hook:
        with pytest.raises(ValueError, match="choose_tasks"):
            make_trainer(hook, tmp_path, max_steps=1).train()
        other = [{"prompt": [{"role": "user", "content": "Hi"}]}] * 8
        from datasets import Dataset

        with pytest.raises(ValueError, match="hook's own `dataset`"):
            hook.choose_tasks(make_trainer(hook, tmp_path, Dataset.from_list(other)))
    with Watched("trl_sampler_tests/Pays-v0", tasks=TASKS) as hook, pytest.raises(ValueError, match="no sampler"):
        hook.choose_tasks(None)  # type: ignore[arg-type]
