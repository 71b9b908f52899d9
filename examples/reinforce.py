"""REINFORCE without a trainer: the pocket model learns not to slip in its sums, and the whole loop is on this page.

Each step plays some sums several times each, with the weights as they are; what was better than its group's mean is
made more likely, token by token. A masked episode (an engine that failed, a bug) has no reward, and no part in it.

    pip install -e ".[local]"
    python examples/reinforce.py
"""

from __future__ import annotations

import argparse
import asyncio
import os
from importlib import resources
from typing import Any

# Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

import gym_llm
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.trainers.advantages import group_advantages

GROUP = 8
"""Episodes of each sum in a step."""
BATCH = 32
"""Segments of episodes that are learned from at once."""


async def train(steps: int, sums: int, learning_rate: float) -> None:
    """Play and learn, in turn."""
    pocket = str(resources.files("gym_llm.engines.pocket") / "model")
    model: Any = AutoModelForCausalLM.from_pretrained(pocket, dtype=torch.float32, attn_implementation="sdpa").eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    async with TransformersEngine.of(model, AutoTokenizer.from_pretrained(pocket), threads=1) as engine:
        for step in range(steps):
            groups = gym_llm.rollout(
                "gym_llm/Arithmetic-v0", engine, limit=sums, group_size=GROUP, seed=step, sampling={"temperature": 1.0}
            )
            records = [record async for group in groups for record in group]
            rewards = [record["reward"] for record in records]
            advantages = group_advantages(rewards, GROUP)
            learned = [
                (segment, advantage)
                for record, advantage in zip(records, advantages.tolist(), strict=True)
                for segment in (record["trajectory"] or () if advantage else ())
            ]
            sampled = sum(sum(segment["loss_mask"]) for segment, _ in learned)
            optimizer.zero_grad()
            for start in range(0, len(learned), BATCH):
                (policy_loss(model, learned[start : start + BATCH]) / sampled).backward()
            optimizer.step()
            scored = [reward for reward in rewards if reward is not None]
            mean = sum(scored) / len(scored) if scored else float("nan")
            print(f"step {step + 1}/{steps}  mean reward {mean:.3f}  learned from {sampled} tokens", flush=True)


def policy_loss(model: Any, learned: list[tuple[dict[str, Any], float]]) -> torch.Tensor:
    """The loss of some segments of episodes, each with its advantage: a sum over their sampled tokens."""

    def padded(name: str) -> torch.Tensor:
        return pad_sequence([torch.tensor(segment[name]) for segment, _ in learned], batch_first=True)

    ids, mask = padded("input_ids"), padded("loss_mask")[:, 1:]
    logits = model(ids[:, :-1]).logits
    chosen = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(2)
    advantages = torch.tensor([advantage for _, advantage in learned])
    return -(advantages[:, None] * chosen * mask).sum()


def main() -> None:
    """Train as the arguments say."""
    parser = argparse.ArgumentParser(description="REINFORCE without a trainer, on two CPU cores.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sums", type=int, default=16, help="different sums in a step (default: 16)")
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    arguments = parser.parse_args()
    asyncio.run(train(arguments.steps, arguments.sums, arguments.learning_rate))


if __name__ == "__main__":
    main()
