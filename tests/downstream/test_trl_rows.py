"""A thousand random episodes: what TRL trains on is what was read and sampled, to the last bit."""

from collections import Counter

import pytest
import random_talk
import torch
from testing import POCKET
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from gym_llm.engines import specs
from gym_llm.trainers.trl import RolloutFunc

pytestmark = pytest.mark.slow

GROUP, GROUPS = 4, 250
LONGEST = 600


def test_a_thousand_random_episodes_reach_the_trainers_batch_exactly(tmp_path, monkeypatch):
    monkeypatch.setitem(specs._OURS, "any", ("any", "random_talk:RandomEngine"))
    episodes = []
    with RolloutFunc(random_talk.ENV_ID, tasks=random_talk.tasks(GROUPS), engine="any") as talk:
        play = talk._pool.play_all

        def noted(*args):
            episodes.extend(play(*args))
            return episodes

        monkeypatch.setattr(talk._pool, "play_all", noted)
        config = GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=GROUP * GROUPS,
            num_generations=GROUP,
            max_completion_length=LONGEST,
            off_policy_mask_threshold=0.5,  # so that TRL looks at the log probabilities at all
            bf16=False,
            use_cpu=True,
            report_to="none",
        )
        trainer = GRPOTrainer(
            AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32),
            args=config,
            train_dataset=talk.dataset(),
            rollout_func=talk,
            reward_funcs=talk.reward,
            processing_class=random_talk.tokenizer(),
        )
        trainer.model.train()
        prompts = [row for row in talk.dataset() for _ in range(GROUP)]
        with torch.no_grad():
            batch = trainer._generate_and_score_completions(prompts)
    assert len(episodes) == GROUP * GROUPS
    seen = Counter()
    for row, record in enumerate(episodes):
        kept = batch["completion_mask"][row].bool()
        trained = (batch["completion_mask"] * batch["tool_mask"])[row].bool()
        advantage = batch["advantages"][row].item()
        if record["reward"] is None:
            assert advantage == 0.0 and not trained.any()
            seen["masked"] += 1
            continue
        (segment,) = record["trajectory"]
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        assert prompt + batch["completion_ids"][row][kept].tolist() == segment["input_ids"]
        assert [0] * len(prompt) + trained[kept].int().tolist() == segment["loss_mask"]
        log_probs = batch["sampling_per_token_logps"][row][kept].tolist()
        assert [0.0] * len(prompt) + log_probs == segment["logprobs"]
        seen["scored"] += 1
        seen["turns"] += record["info"]["turn"]
    assert seen["masked"] > 100 and seen["turns"] > 2 * seen["scored"]
