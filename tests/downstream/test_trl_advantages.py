"""Our advantages are those of TRL's own trainers, masked episodes included."""

import random

import pytest
import torch
from datasets import Dataset
from testing import POCKET
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from gym_llm.trainers.shared.advantages import group_advantages, rloo_advantages

pytestmark = pytest.mark.slow

GROUPS, GROUP = 1_000, 4
ROWS = GROUPS * GROUP


def random_rewards():
    """Halves and masked ones, among them groups without any, with one only, and of equals."""
    rng = random.Random(7)
    shares = (rng.choice((0.0, 0.2, 0.9, 1.0)) for _ in range(GROUPS))
    return [None if rng.random() < share else rng.randrange(5) / 2 for share in shares for _ in range(GROUP)]


@pytest.fixture(scope="module")
def trained_with(tmp_path_factory):
    """What a trainer makes of rewards: one of its own steps of sampling and scoring, of a token per completion."""
    tokenizer = AutoTokenizer.from_pretrained(POCKET)

    def advantages(trainer_class, config_class, rewards, **arguments):
        config = config_class(
            output_dir=str(tmp_path_factory.mktemp("trainer")),
            per_device_train_batch_size=ROWS,
            num_generations=GROUP,
            max_completion_length=1,
            bf16=False,
            use_cpu=True,
            report_to="none",
            beta=0.0,
            **arguments,
        )
        trainer = trainer_class(
            AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32),
            args=config,
            train_dataset=Dataset.from_dict({"prompt": ["1"] * GROUPS}),
            processing_class=tokenizer,
            reward_funcs=lambda completions, **_: rewards,
        )
        trainer.model.train()
        inputs = [{"prompt": "1"}] * ROWS
        return trainer._generate_and_score_completions(inputs)["advantages"].tolist()

    return advantages


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_grpo(trained_with, scale):
    rewards = random_rewards()
    theirs = trained_with(GRPOTrainer, GRPOConfig, rewards, scale_rewards=scale)
    assert group_advantages(rewards, GROUP, scale=scale).tolist() == pytest.approx(theirs, abs=1e-6, rel=1e-6)
    assert any(reward is None for reward in rewards) and any(theirs)


@pytest.mark.parametrize("normalize", [False, True])
def test_rloo(trained_with, normalize):
    rewards = random_rewards()
    theirs = trained_with(RLOOTrainer, RLOOConfig, rewards, normalize_advantages=normalize)
    assert rloo_advantages(rewards, GROUP, normalize=normalize).tolist() == pytest.approx(theirs, abs=1e-6, rel=1e-6)
