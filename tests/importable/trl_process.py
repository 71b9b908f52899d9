"""One of the processes that torchrun starts to train with TRL; writes down what it played, and how far it was off."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch


class WithoutSandbox(gym.Wrapper):
    """Every episode of the second process fails."""

    def reset(self, **arguments: Any) -> Any:
        """Begin an episode, if it can."""
        if os.environ["RANK"] == "1":
            raise OSError("no sandbox")
        return super().reset(**arguments)


@torch.no_grad()
def off(model: Any, output: dict[str, Any]) -> float:
    """How far the log probabilities of sampled tokens are from the model's own, at most."""
    most = 0.0
    rows = zip(output["prompt_ids"], output["completion_ids"], output["env_mask"], output["logprobs"], strict=True)
    for prompt, completion, mask, reported in rows:
        scores = model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        own = scores.gather(1, torch.tensor(completion)[:, None])[:, 0].tolist()
        most = max([most, *(abs(a - b) for a, b, kept in zip(own, reported, mask, strict=True) if kept)])
    return most


def main(folder: str, model: str, engine: str, options: str, workers: str, wrapper: str = "") -> None:
    """Train for three steps."""
    from trl import GRPOConfig, GRPOTrainer

    from gym_llm.rollouts.settings import DEFAULT_WRAPPERS
    from gym_llm.trainers.trl import RolloutFunc

    calls = []
    arithmetic = RolloutFunc(
        "gym_llm/Arithmetic-v0",
        env_kwargs={"digits": 3},
        env_wrappers=(*DEFAULT_WRAPPERS, *([WithoutSandbox] if wrapper else ())),
        engine=engine,
        engine_options=json.loads(options),
        workers=int(workers),
    )

    def watched(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        output = arithmetic(prompts, trainer)
        failed = sum(info["failed"] for info in output["env_info"])
        tasks = [prompt[0]["task_index"] for prompt in prompts]
        difference = off(trainer.accelerator.unwrap_model(trainer.model), output)
        calls.append([tasks, output["completion_ids"], failed, difference])
        return output

    args = GRPOConfig(
        folder,
        per_device_train_batch_size=4,
        num_generations=8,
        max_steps=3,
        learning_rate=1e-3,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        report_to="none",
        save_strategy="no",
        model_init_kwargs={"dtype": "float32"},
    )
    trainer = GRPOTrainer(
        model, args=args, train_dataset=arithmetic.dataset(4), rollout_func=watched, reward_funcs=arithmetic.reward
    )
    with arithmetic:
        trainer.train()
    weights = sum(float(tensor.abs().sum()) for tensor in trainer.model.parameters())
    (Path(folder) / os.environ["RANK"]).write_text(json.dumps({"calls": calls, "weights": weights}))


if __name__ == "__main__":
    main(*sys.argv[1:])
