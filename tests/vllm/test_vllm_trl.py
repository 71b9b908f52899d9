"""GRPO on vLLM: what it samples is what the trainer's weights say, step after step."""

import os
from importlib import resources

import pytest

pytest.importorskip("trl")
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from gym_llm.trainers.trl import RolloutFunc

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")


@torch.no_grad()
def log_probs(model, prompt, completion):
    ids = torch.tensor([prompt + completion])
    scores = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return scores.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()


def test_vllm_samples_with_the_trainers_weights_of_every_step(tmp_path):
    weather = RolloutFunc("gym_llm/Weather-v0", engine="vllm:pocket", engine_options={"dtype": "float32"})
    calls = []

    def watched(prompts, trainer):
        output = weather(prompts, trainer)
        pairs = zip(output["prompt_ids"], output["completion_ids"], strict=True)
        calls.append((output, [log_probs(trainer.model, *pair) for pair in pairs]))
        return output

    args = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=300,
        max_steps=3,
        learning_rate=2e-3,
        logging_steps=1,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
    )
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    trainer = GRPOTrainer(
        model,
        args=args,
        train_dataset=weather.dataset(6),
        processing_class=AutoTokenizer.from_pretrained(POCKET),
        rollout_func=watched,
        reward_funcs=weather.reward,
    )
    with weather:
        trainer.train()
    assert len(calls) == 3
    for output, recomputed in calls:
        assert len(output["env_mask"]) == 8 and any(0 in mask for mask in output["env_mask"])
        for mask, sampled, own in zip(output["env_mask"], output["logprobs"], recomputed, strict=True):
            kept = [n for n, trained in enumerate(mask) if trained]
            assert [sampled[n] for n in kept] == pytest.approx([own[n] for n in kept], abs=5e-3)
    # The weights have moved between the steps, or the comparison would show nothing.
    start = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    output, recomputed = calls[-1]
    before = log_probs(start, output["prompt_ids"][0], output["completion_ids"][0])
    assert before != pytest.approx(recomputed[0], abs=5e-3)
