"""Check the version of every token: replace the weights under live episodes, and compute each log probability again.

    python benchmarks/weight_versions.py                                     1,000 updates, 10,000 episodes
    .venv-vllm/bin/python benchmarks/weight_versions.py --engine vllm        the same on the real vLLM

The pocket model plays a stream of sums. Meanwhile its weights are replaced again and again, in the midst of answers
(`mode="recompute"`). Those of version v are the model's own times 1 + `--noise` times normal numbers of the seed v.
Then a model with the weights of each version reads all episodes with tokens of that version.

- `largest` is the largest difference of a recorded log probability from that of its recorded version; 1e-4 is asked.
- `mislabelled` counts tokens that are further off than that and fit the version before or after. `apart` is the share
  of tokens which these two versions would give another log probability by more than 1e-4: the others would not show it.
- `lost` counts episodes without a reward, and records that did not come.

Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter, defaultdict
from importlib import resources
from typing import Any

# Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

import gym_llm
from gym_llm.types import Rollout

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
OPTIONS: dict[str, dict[str, Any]] = {
    "transformers": {"dtype": "float32", "threads": 1},
    "vllm": {"dtype": "float32", "max_model_len": 512, "enforce_eager": True},
}
ASKED = 1e-4
BATCH = 128  # rows that the model reads at once


class Versions:
    """The pocket model, whose weights are those of any version."""

    def __init__(self, noise: float) -> None:
        self.model: Any = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32, attn_implementation="sdpa")
        self.model.eval()
        self._own = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self._noise = noise

    def weights(self, version: int) -> dict[str, torch.Tensor]:
        """The weights of a version; those of version 0 are the model's own."""
        if version == 0:
            return self._own
        random = torch.Generator().manual_seed(version)
        made: dict[str, torch.Tensor] = {}
        for name, tensor in self._own.items():
            tied = made.get("model.embed_tokens.weight") if name == "lm_head.weight" else None
            factor = 1 + self._noise * torch.randn(tensor.shape, generator=random)
            made[name] = tensor * factor if tied is None else tied
        return made

    def log_probs(self, version: int, rows: list[list[int]]) -> list[torch.Tensor]:
        """The log probabilities that a version gives to the ids of some rows, each from its second id on."""
        self.model.load_state_dict(self.weights(version))
        found: list[torch.Tensor] = []
        with torch.no_grad():
            for start in range(0, len(rows), BATCH):
                batch = rows[start : start + BATCH]
                ids = pad_sequence([torch.tensor(row) for row in batch], batch_first=True)
                logits = self.model(ids[:, :-1]).logits
                chosen = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(2)
                found.extend(chosen[n, : len(row) - 1] for n, row in enumerate(batch))
        return found


async def play(args: argparse.Namespace, versions: Versions) -> tuple[list[Rollout], int, float]:
    """Play episodes while the weights change; return the records, the last version and the seconds."""
    records: list[Rollout] = []
    spec = f"{args.engine}:{POCKET}"
    more: dict[str, Any] = {"concurrency": args.concurrency, "sampling": {"temperature": 1.0, "max_output_tokens": 160}}
    groups = gym_llm.stream(args.env, spec, group_size=2, engine_options=OPTIONS[args.engine], seed=args.seed, **more)
    started = time.perf_counter()

    async def update() -> None:
        for version in range(1, args.updates + 1):
            while len(records) < version * args.episodes // (args.updates + 1):
                await asyncio.sleep(0.002)
            await groups.update_weights(versions.weights(version).items(), mode="recompute")
            if version % max(1, args.updates // 20) == 0:
                print(
                    f"version {version}: {len(records)} episodes, {time.perf_counter() - started:.0f} s",
                    file=sys.stderr,
                )

    async with groups:
        updating = asyncio.create_task(update())
        async for group in groups:
            records.extend(group)
            if updating.done() and len(records) >= args.episodes:
                break
        await updating
        return records, groups.weight_version, time.perf_counter() - started


def check(records: list[Rollout], versions: Versions) -> dict[str, Any]:
    """Compute every sampled token's log probability again, under its version, the one before and the one after."""
    segments = [segment for record in records for segment in record["trajectory"] or ()]
    labels = [np.array(each.get("weight_versions") or [0] * len(each["input_ids"]))[1:] for each in segments]
    sampled = [np.array(each["loss_mask"][1:], bool) for each in segments]
    recorded = [np.array(each["logprobs"][1:]) for each in segments]
    rows_of: dict[int, list[int]] = defaultdict(list)
    for number, (label, used) in enumerate(zip(labels, sampled, strict=True)):
        for version in set(label[used].tolist()):
            rows_of[version].append(number)
    counts, largest, apart = Counter[str](), 0.0, 0
    spans = [len(set(label[used].tolist())) for label, used in zip(labels, sampled, strict=True)]
    for version, numbers in sorted(rows_of.items()):
        rows = [segments[number]["input_ids"] for number in numbers]
        own = versions.log_probs(version, rows)
        others = [versions.log_probs(near, rows) for near in (version - 1, version + 1) if near >= 0]
        for place, number in enumerate(numbers):
            here = sampled[number] & (labels[number] == version)
            off = np.abs(own[place].numpy() - recorded[number])[here]
            near = np.stack([np.abs(other[place].numpy() - recorded[number])[here] for other in others])
            counts["tokens"] += len(off)
            counts["off"] += int((off > ASKED).sum())
            counts["mislabelled"] += int(((off > ASKED) & (near.min(0) <= ASKED)).sum())
            apart += int((near > ASKED).all(0).sum())
            largest = max(largest, float(off.max(initial=0.0)))
    return {
        "tokens": counts["tokens"],
        "largest": largest,
        "off": counts["off"],
        "mislabelled": counts["mislabelled"],
        "apart": round(apart / max(counts["tokens"], 1), 4),
        "versions_in_an_episode": round(sum(spans) / max(len(spans), 1), 2),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=list(OPTIONS), default="transformers")
    parser.add_argument("--env", default="gym_llm/Arithmetic-v0", help="(default: gym_llm/Arithmetic-v0)")
    parser.add_argument("--updates", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--episodes", type=int, default=10_000, help="(default: 10000)")
    parser.add_argument("--concurrency", type=int, default=128, help="(default: 128)")
    parser.add_argument("--noise", type=float, default=0.05, help="(default: 0.05)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    args = parser.parse_args()
    disable_progress_bar()
    versions = Versions(args.noise)
    records, last, seconds = asyncio.run(play(args, versions))
    ids = Counter(tuple(record["rollout_id"].values()) for record in records)
    result = {
        "engine": args.engine,
        "env": args.env,
        "updates": last,
        "episodes": len(records),
        "lost": sum(record["reward"] is None for record in records) + len(records) - len(ids),
        "seconds": round(seconds, 1),
        **check(records, versions),
    }
    ok = not result["lost"] and not result["mislabelled"] and result["largest"] <= ASKED
    print(json.dumps({"benchmark": "weight_versions", "ok": ok, **result}))


if __name__ == "__main__":
    main()
