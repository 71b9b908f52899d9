"""REINFORCE without a trainer: the pocket model learns not to slip in its sums, and the whole loop is on this page.

Each step plays some sums several times each, with the current weights. Answers that beat their group's mean become
more likely, token by token. A masked episode (an engine that failed, a bug) has no reward, and no part in it.
Sums that are never trained on show what was learned. Two CPU cores are enough:

    pip install -e ".[local,plots]"
    python examples/reinforce.py --picture runs/reinforce.png
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from pathlib import Path
from typing import Any

# Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

import gym_llm
from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.trainers.shared.advantages import group_advantages

ENV_ID = "gym_llm/Arithmetic-v0"
SUMS, GROUP = 16, 8  # of a step: different sums, and episodes of each
BATCH = 64  # segments of episodes that go through the model at once
PLAYED: dict[str, Any] = {"concurrency": 128, "sampling": {"temperature": 1.0}}


async def train(steps: int, learning_rate: float, held_out: int, seed: int) -> tuple[list[float], float, float]:
    """Play and learn, in turn: each step's mean reward, and that on held-out sums before and after."""
    pocket = MODEL_PATH
    model: Any = AutoModelForCausalLM.from_pretrained(pocket, dtype=torch.float32, attn_implementation="sdpa").eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    seed, means = seed * 1_000_000, []  # a rollout's seed chooses its sums: this one tests, those after it train
    tokenizer = AutoTokenizer.from_pretrained(pocket)
    async with TransformersEngine.of(model, tokenizer, threads=1, max_batch_size=128) as engine:
        tests = [record async for record in gym_llm.rollout(ENV_ID, engine, limit=held_out, seed=seed, **PLAYED)]
        tested, before = {problem(record) for record in tests}, mean([record["reward"] for record in tests])
        for step in range(1, steps + 1):
            groups = gym_llm.rollout(ENV_ID, engine, limit=SUMS, group_size=GROUP, seed=seed + step, **PLAYED)
            records = [record async for group in groups for record in group]
            rewards = [None if problem(record) in tested else record["reward"] for record in records]
            learned = [
                (segment, advantage)
                for record, advantage in zip(records, group_advantages(rewards, GROUP).tolist(), strict=True)
                for segment in (record["trajectory"] or () if advantage else ())
            ]
            for half in (learned[0::2], learned[1::2]):  # for the second update the weights are hardly others yet
                update(model, optimizer, half)
            decay.step()
            means.append(mean(rewards))
            print(f"step {step}/{steps}  mean reward {means[-1]:.3f}  learned from {len(learned)} episodes", flush=True)
        tests = [record async for record in gym_llm.rollout(ENV_ID, engine, limit=held_out, seed=seed, **PLAYED)]
    return means, before, mean([record["reward"] for record in tests])


def problem(record: Any) -> str:
    """Which sum it was, whatever the words around it."""
    return " ".join(re.findall(r"\d+|[+-]", record["responses_create_params"]["input"][0]["content"]))


def mean(rewards: list[Any]) -> float:
    """The mean of those that are there."""
    scored = [reward for reward in rewards if reward is not None]
    return sum(scored) / len(scored) if scored else float("nan")


def update(model: Any, optimizer: torch.optim.Optimizer, learned: list[tuple[dict[str, Any], float]]) -> None:
    """One step of the optimizer, on the mean loss of all tokens that were sampled."""
    sampled = sum(sum(segment["loss_mask"]) for segment, _ in learned)
    optimizer.zero_grad()
    for start in range(0, len(learned), BATCH):
        (policy_loss(model, learned[start : start + BATCH]) / sampled).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def policy_loss(model: Any, learned: list[tuple[dict[str, Any], float]]) -> torch.Tensor:
    """The loss of some segments of episodes, each with its advantage: a sum over their sampled tokens."""
    ids, loss_mask = (
        pad_sequence([torch.tensor(segment[name]) for segment, _ in learned], batch_first=True)
        for name in ("input_ids", "loss_mask")
    )
    logits = model(ids[:, :-1]).logits
    chosen = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(2)
    return -(torch.tensor([advantage for _, advantage in learned])[:, None] * chosen * loss_mask[:, 1:]).sum()


def main() -> None:
    """Train as the arguments say."""
    parser = argparse.ArgumentParser(description="REINFORCE without a trainer, on two CPU cores.", allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="at first, then falling to 0 (default: 3e-4)")
    parser.add_argument("--held-out", type=int, default=1024, help="sums to test with (default: 1024)")
    parser.add_argument("--seed", type=int, default=0, help="of all sums (default: 0)")
    parser.add_argument("--picture", type=Path, help="draw reward against step into this file (with matplotlib)")
    args = parser.parse_args()
    means, before, after = asyncio.run(train(args.steps, args.learning_rate, args.held_out, args.seed))
    print(f"{args.held_out} held-out sums: mean reward {before:.3f} before, {after:.3f} after")
    if args.picture:
        from matplotlib import pyplot

        pyplot.plot(means)
        pyplot.plot([0, len(means)], [before, after], "o")
        pyplot.savefig(args.picture)


if __name__ == "__main__":
    main()
