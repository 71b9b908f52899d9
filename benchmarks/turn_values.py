"""Compare GRPO with GRPO on values of turns (`turn_values`), at equal sampled tokens, on two environments of turns.

    python benchmarks/turn_values.py --picture docs/images/turn_values.png
    python benchmarks/turn_values.py --envs counter --seeds 0 --tokens 30000

- `grpo` plays groups of eight episodes; all tokens of an episode have its advantage.
- `values` plays single episodes, and `--forks` forks from each of their turns, whose tokens count as well. The tokens
  of a turn have the turn's advantage. Forks are not trained on.

Both learn after each `--batch` sampled tokens, until they have sampled `--tokens`. In `counter` the model adds two
numbers with a tool and reads the counter; in `weather` it calls a tool and repeats its answer. The pocket model knows
both. So its weights are shaken at first: each is multiplied by 1 + `--noise` times a normal number. Each run has a
process with one thread, `--at-once` of them beside one another. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import gymnasium as gym
import numpy as np
import torch
from reinforce import mean
from torch.nn.utils.rnn import pad_sequence
from train_stream import pocket, update
from transformers.utils.logging import disable_progress_bar

import gym_llm
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.envs.counter.env import Counter
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.trainers.shared.turn_values import turn_values, value_advantages
from gym_llm.types import Rollout, Row

GROUP = 8
TURNS = 6  # at most, of an episode
PLAYED: dict[str, Any] = {"concurrency": 128, "sampling": {"temperature": 1.0, "max_output_tokens": 160}}
PLAYED["env_kwargs"] = {"max_turns": TURNS}
Learned = tuple[list[TokenRow], list[list[float]], int]  # rows, an advantage for each id, and the tokens that it cost


class Counting(Counter):
    """`Counter` with tasks without end."""

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw the counter's first value, and two numbers to add."""
        start, first, second = map(int, rng.integers(1, [50, 20, 20]))
        prompt = f"Add {first}, then add {second}, then read the counter."
        return self.row(prompt, initial_count=start, expected_count=start + first + second)


ENVIRONMENTS = {"counter": "gym_llm/Counting-v0", "weather": "gym_llm/Weather-v0"}
gym.register(ENVIRONMENTS["counter"], entry_point=Counting)


def shake(model: Any, noise: float, seed: int) -> None:
    """Multiply each weight by 1 + `noise` times a normal number, so that the model has something to learn."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + noise * torch.randn(parameter.shape, generator=random))


def sampled_tokens(records: list[Rollout]) -> int:
    """The tokens that the model has sampled for these records; those that a fork took over are not among them."""
    usages = [(record["response"] or {}).get("usage") for record in records]
    return sum(usage["output_tokens"] for usage in usages if usage)


def spread(records: list[Rollout], advantages: list[np.ndarray]) -> tuple[list[TokenRow], list[list[float]]]:
    """The rows of some records, and an advantage for each of their ids: that of its turn."""
    rows, columns = [], []
    for record, turns in zip(records, advantages, strict=True):
        left = iter(turns.tolist())
        for row in token_rows(record):
            column = [0.0] * len(row.input_ids)
            for (start, end), advantage in zip(row.turns, left, strict=False):
                column[start:end] = [advantage] * (end - start)
            if any(column):
                rows.append(row)
                columns.append(column)
    return rows, columns


async def grpo(env_id: str, engine: Any, tokens: int, each: float, seed: int) -> Learned:
    """Play groups of about as many tokens, and compare the episodes of a group."""
    count = max(1, round(tokens / (each * GROUP)))
    groups = gym_llm.rollout(env_id, engine, limit=count, group_size=GROUP, seed=seed, **PLAYED)
    records = [record async for group in groups for record in group]
    advantages = group_advantages([record["reward"] for record in records], GROUP)
    turns = [np.full(record["info"]["turn"], value) for record, value in zip(records, advantages, strict=True)]
    return *spread(records, turns), sampled_tokens(records)


async def values(env_id: str, engine: Any, tokens: int, each: float, seed: int, forks: int) -> Learned:
    """Play episodes and their forks of about as many tokens, and compare what is left of an episode after each turn."""
    count = max(1, round(tokens / (each * (1 + forks * 2))))
    played = gym_llm.rollout(env_id, engine, limit=count, seed=seed, **PLAYED)
    records = [record async for record in played]
    found = await turn_values(records, k=forks, engine=engine, seed=seed, **PLAYED)
    turns = [value_advantages(one.values, record["reward"]) for one, record in zip(found, records, strict=True)]
    scale = float(np.std(np.concatenate(turns))) + 1e-6
    cost = sampled_tokens(records) + sum(sampled_tokens(one.forks) for one in found)
    return *spread(records, [one / scale for one in turns]), cost


async def learn(env: str, way: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """One run: the held-out rewards before and after, and what it learned from."""
    env_id = ENVIRONMENTS[env]
    play = grpo if way == "grpo" else partial(values, forks=args.forks)
    model, tokenizer = pocket()
    shake(model, args.noise, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.0)
    base, used, updates, count = seed * 1_000_000, 0, 0, 0
    # With "append" each episode is one row of tokens.
    options: dict[str, Any] = {"threads": 1, "max_batch_size": 128, "seed": seed, "history": "append"}
    async with TransformersEngine.of(model, tokenizer, **options) as engine:

        async def tested() -> tuple[float, float]:
            played = gym_llm.rollout(env_id, engine, limit=args.held_out, seed=base, **PLAYED)
            records = [record async for record in played]
            return mean([record["reward"] for record in records]), sampled_tokens(records) / len(records)

        (before, each), curve = await tested(), []
        while used < args.tokens:
            updates += 1
            # What the last updates took too much is taken off this one.
            wanted = max(1, updates * args.batch - used)
            rows, columns, cost = await play(env_id, engine, wanted, each, base + updates)
            for group in optimizer.param_groups:
                group["lr"] = args.learning_rate * max(0.0, 1 - used / args.tokens)
            if rows:
                update(model, optimizer, rows, pad_sequence([torch.tensor(one) for one in columns], batch_first=True))
            used += cost
            count += len(rows)
            if updates % args.every == 0:
                curve.append((used, (await tested())[0]))
        after, _ = await tested()
    curve = [(0, before), *curve, (used, after)]
    return {"env": env, "way": way, "seed": seed, "updates": updates, "tokens": used, "rows": count, "curve": curve}


def start(env: str, way: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """`learn`, in a process of its own."""
    torch.set_num_threads(1)
    disable_progress_bar()
    return asyncio.run(learn(env, way, seed, args))


def draw(runs: list[dict[str, Any]], file: Path) -> None:
    """Held-out reward against sampled tokens: a panel for each environment, a line for each run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    envs = sorted({run["env"] for run in runs})
    plot, panels = pyplot.subplots(1, len(envs), figsize=(5 * len(envs), 4), layout="constrained", squeeze=False)
    for axes, env in zip(panels[0], envs, strict=True):
        for color, way in enumerate(("grpo", "values")):
            for number, run in enumerate(run for run in runs if (run["env"], run["way"]) == (env, way)):
                label = {"grpo": "GRPO", "values": "values of turns"}[way] if number == 0 else None
                curve = zip(*run["curve"], strict=True)
                axes.plot(*curve, ".-", color=f"C{color}", linewidth=1, alpha=0.7, label=label)
        axes.set(xlabel="sampled tokens", ylabel="mean reward, held-out tasks", title=env)
        axes.grid(alpha=0.3)
        axes.legend(title="a line for each seed")
    plot.savefig(file, dpi=120)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=list(ENVIRONMENTS), default=list(ENVIRONMENTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="(default: 0 1 2 3 4)")
    parser.add_argument("--tokens", type=int, default=300_000, help="of a run (default: 300000)")
    parser.add_argument("--batch", type=int, default=6000, help="tokens of an update (default: 6000)")
    parser.add_argument("--forks", type=int, default=2, help="of each turn (default: 2)")
    parser.add_argument("--noise", type=float, default=0.2, help="of the first weights, see above (default: 0.2)")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="at first, then falling to 0 (default: 3e-4)")
    parser.add_argument("--every", type=int, default=10, help="updates between two tests (default: 10)")
    parser.add_argument("--held-out", type=int, default=256, help="tasks to test with (default: 256)")
    parser.add_argument("--at-once", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--picture", type=Path, help="draw all curves into this file")
    args = parser.parse_args()
    runs = []
    with ProcessPoolExecutor(args.at_once, multiprocessing.get_context("spawn")) as processes:
        jobs = [
            processes.submit(start, env, way, seed, args)
            for env in args.envs
            for seed in args.seeds
            for way in ("grpo", "values")
        ]
        for job in jobs:
            runs.append(job.result())
            run, curve = runs[-1], runs[-1]["curve"]
            what = f"{run['env']}, {run['way']}, seed {run['seed']}: {run['updates']} updates, {run['tokens']} tokens"
            print(f"{what}, {curve[0][1]:.3f} to {curve[-1][1]:.3f}", file=sys.stderr, flush=True)
    if args.picture:
        draw(runs, args.picture)
    result: dict[str, Any] = {"benchmark": "turn_values", "tokens": args.tokens, "cpus": os.cpu_count()}
    for env in args.envs:
        for way in ("grpo", "values"):
            ends = [run["curve"][-1][1] for run in runs if (run["env"], run["way"]) == (env, way)]
            result[f"{env}_{way}"] = {"mean": round(statistics.mean(ends), 4), "seeds": [round(end, 3) for end in ends]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
