r"""Train without waiting: the pocket model plays sums while a copy of it learns from those that are finished.

A stream plays groups of episodes without end. The trainer takes a few groups, makes one update, and gives the new
weights to the engine in the midst of its answers. Every token carries the version of the weights that sampled it, and
truncated importance weights correct for older ones. `--lockstep` waits instead: no episode begins before the update.

    pip install -e ".[local]"
    python examples/train_stream.py
    python examples/train_stream.py --lockstep                       # for comparison
    python examples/train_stream.py --stale keep                     # play on, and learn from older tokens, too
    python examples/train_stream.py --grading 0.3                    # each answer is graded for 0.3 seconds on average
    python examples/train_stream.py --sums 64 --products 192 --stale keep --dynamic --sampler

The last line trains on a file in which three of four tasks are products, which the model cannot learn. `--sampler`
draws more of the tasks whose rewards vary. At the end, sums that were never trained on show when the policy reached
`--target`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from pathlib import Path
from typing import Any, NamedTuple, get_args

# Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import gymnasium as gym
import torch
from pydantic import Field
from reinforce import mean, problem
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

import gym_llm
from gym_llm import Episode
from gym_llm.engines.pocket import MODEL_PATH, PocketEngine
from gym_llm.engines.weights import UpdateMode
from gym_llm.envs.arithmetic.env import Arithmetic
from gym_llm.rollouts.staleness import Stale
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.importance import importance
from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.types import Verdict

ENV_ID = "gym_llm/Arithmetic-v0"
GROUPS, GROUP = 8, 8  # of an update: tasks, and episodes of each
SUMS = 4096  # that are trained on by default
MOST_GROUPS = 512  # of an update: once all sums are learned, few groups differ
EVERY = 5  # updates between two snapshots
READ_AT_ONCE = 16  # rows of a forward pass: this bounds the memory of an update
PLAYED: dict[str, Any] = {"concurrency": 256, "sampling": {"temperature": 1.0, "max_output_tokens": 160}}
ENGINE: dict[str, Any] = {"max_batch_size": 256}


class Graded(Arithmetic):
    """`Arithmetic` whose verifier takes a while, as a judge or a run of tests does.

    Args:
        grading: Mean seconds; they are drawn from an exponential distribution.
        **kwargs: See `Arithmetic`.
    """

    class Config(Arithmetic.Config):
        """The time that grading takes."""

        grading: float = Field(0.0, ge=0.0)

    config: Config

    async def verify(self, task: Any, episode: Episode) -> Verdict:  # type: ignore[override]
        """Wait, then grade."""
        await asyncio.sleep(random.expovariate(1 / self.config.grading) if self.config.grading else 0.0)
        return super().verify(task, episode)


GRADED = "train_stream/GradedArithmetic-v0"
gym.register(GRADED, entry_point=Graded)


class Snapshot(NamedTuple):
    """The weights after some updates, and what they cost.

    Attributes:
        updates: The number of updates.
        seconds: Wall time from the first episode on.
        tokens: Sampled tokens.
        weights: The weights.
    """

    updates: int
    seconds: float
    tokens: int
    weights: dict[str, torch.Tensor]


def train(args: argparse.Namespace, rows: list[dict[str, Any]]) -> tuple[list[Snapshot], dict[str, int]]:
    """Play and learn at the same time, or in turn with `--lockstep`."""
    model, tokenizer = pocket()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.0)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=args.updates)
    torch.set_num_threads(2 if args.lockstep else 1)  # beside the trainer, the engine computes in a thread of its own
    streamed = gym_llm.stream(
        GRADED if args.grading else ENV_ID,
        "pocket",
        env_kwargs={"grading": args.grading} if args.grading else None,
        engine_options=ENGINE,
        tasks=rows,
        group_size=GROUP,
        sampler=gym_llm.TaskSampler(seed=args.seed) if args.sampler else None,
        seed=args.seed,
        workers=args.workers,
        **policy(args),
        **PLAYED,
    )
    snapshots, rewards = [Snapshot(0, 0.0, 0, copied(model))], []
    with streamed as groups:
        started = time.perf_counter()
        try:
            for updates in range(1, args.updates + 1):
                taken = take(groups, dynamic=args.dynamic)
                rewards.append(mean([record["reward"] for group in taken for record in group]))
                update(model, optimizer, *rows_to_learn(taken))
                decay.step()
                groups.update_weights_and_wait(model.state_dict().items(), mode=args.mode)
                if updates % EVERY == 0 or updates == args.updates:
                    seconds = time.perf_counter() - started
                    snapshots.append(Snapshot(updates, seconds, groups.counts["tokens"], copied(model)))
                    lately = mean(rewards[-EVERY:])
                    print(f"update {updates}/{args.updates}  reward {lately:.3f}  {seconds:.0f} s", flush=True)
        except KeyboardInterrupt:
            print("\nInterrupted: testing what there is.", flush=True)
    if args.output:
        model.save_pretrained(args.output)
        tokenizer.save_pretrained(args.output)
    return snapshots, dict(groups.counts)


def take(groups: Any, *, dynamic: bool) -> list[list[Any]]:
    """Take the groups of an update: `GROUPS` of them, or as many as it needs for `GROUPS` whose rewards differ."""
    taken: list[list[Any]] = []
    useful = 0
    while useful < GROUPS and len(taken) < MOST_GROUPS:
        taken.append(next(groups))
        useful += not dynamic or len({record["reward"] for record in taken[-1]}) > 1
    return taken


def sums(count: int, operation: str = "+") -> list[dict[str, Any]]:
    """Different sums of two numbers, each in one of its wordings."""
    rows: dict[str, dict[str, Any]] = {}
    tasks, index = gym.make(ENV_ID, operations=operation).unwrapped.tasks, 0  # type: ignore[attr-defined]
    while len(rows) < count:
        row = tasks[index].row
        rows.setdefault(problem(row), row)
        index += 1
    return list(rows.values())


def policy(args: argparse.Namespace) -> dict[str, Any]:
    """What happens to old tokens, as arguments of the stream."""
    if args.lockstep:
        return {"stale": "wait", "max_staleness": 0, "groups_per_update": GROUPS}
    if args.stale == "keep":
        return {}
    return {"stale": "wait", "max_staleness": args.max_staleness, "groups_per_update": GROUPS}


def rows_to_learn(groups: list[list[Any]]) -> tuple[list[TokenRow], torch.Tensor]:
    """The rows of groups whose rewards differ, and an advantage for each, shape (rows, 1)."""
    records = [record for group in groups for record in group]
    advantages = group_advantages([record["reward"] for record in records], GROUP).tolist()
    rows = [
        (row, advantage)
        for record, advantage in zip(records, advantages, strict=True)
        for row in (token_rows(record) if advantage else ())
    ]
    return [row for row, _ in rows], torch.tensor([[advantage] for _, advantage in rows])


def update(model: Any, optimizer: torch.optim.Optimizer, rows: list[TokenRow], advantages: torch.Tensor) -> None:
    """One step of the optimizer. Advantages have the shape (rows, 1), or (rows, length) for one of each token."""
    if not rows:
        return
    optimizer.zero_grad()
    sampled_tokens = sum(sum(row.loss_mask) for row in rows)
    order = sorted(range(len(rows)), key=lambda place: len(rows[place].input_ids))  # of about one length: less padding
    for start in range(0, len(rows), READ_AT_ONCE):
        places = order[start : start + READ_AT_ONCE]
        (loss(model, [rows[place] for place in places], advantages[places]) / sampled_tokens).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def loss(model: Any, rows: list[TokenRow], advantages: torch.Tensor) -> torch.Tensor:
    """The loss of some rows, summed over their sampled tokens."""
    ids, mask, sampled = (padded(rows, name) for name in ("input_ids", "loss_mask", "logprobs"))
    read = model.model(ids[:, :-1]).last_hidden_state
    here = mask[:, 1:].bool()  # logits of the sampled tokens alone: those of the prompts are a third of the work
    chosen = -cross_entropy(model.lm_head(read[here]), ids[:, 1:][here], reduction="none")
    trained = torch.zeros(here.shape).masked_scatter(here, chosen.detach())
    ratios = importance(trained.numpy(), sampled[:, 1:].numpy(), mask[:, 1:].numpy(), highest=2.0)
    spread = advantages if advantages.shape[1] == 1 else advantages[:, 1 : ids.shape[1]]
    weights = torch.from_numpy(ratios.weights).float() * spread
    return -(weights[here] * chosen).sum()


def padded(rows: list[TokenRow], name: str) -> torch.Tensor:
    """A column of some rows, shape (rows, length), with 0 after a row's end."""
    return pad_sequence([torch.tensor(getattr(row, name)) for row in rows], batch_first=True)


def pocket() -> tuple[Any, Any]:
    """The pocket model that ships with the package, and its tokenizer."""
    folder = MODEL_PATH
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    return model, AutoTokenizer.from_pretrained(folder)


def copied(model: Any) -> dict[str, torch.Tensor]:
    """A copy of a model's weights."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def first_that_reaches(
    snapshots: list[Snapshot], held_out: list[dict[str, Any]], target: float, seed: int
) -> tuple[Snapshot | None, list[tuple[Snapshot, float]]]:
    """The first snapshot that reaches the target on held-out sums, and the rewards of those that were tested.

    It is found by halving, because rewards rise in the long run.
    """

    async def test() -> tuple[Snapshot | None, dict[int, float]]:
        tested: dict[int, float] = {}
        async with PocketEngine(**ENGINE, seed=seed) as engine:

            async def reward(place: int) -> float:
                if place not in tested:
                    await engine.update_weights(snapshots[place].weights.items())
                    played = gym_llm.rollout(ENV_ID, engine, tasks=held_out, seed=seed, **PLAYED)
                    tested[place] = mean([record["reward"] async for record in played])
                return tested[place]

            await reward(0)
            low, high = 0, len(snapshots) - 1
            if await reward(high) < target:
                return None, tested
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if await reward(middle) >= target else (middle, high)
            return snapshots[high], tested

    found, tested = asyncio.run(test())
    return found, [(snapshots[place], value) for place, value in sorted(tested.items())]


def common_parser(text: str | None, *, updates: int) -> argparse.ArgumentParser:
    """The arguments that this example and `distill.py` have in common."""
    result = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    result.add_argument("--updates", type=int, default=updates, help=f"updates of the weights (default: {updates})")
    result.add_argument("--learning-rate", type=float, default=3e-4, help="at first, then falling to 0 (default: 3e-4)")
    result.add_argument("--held-out", type=int, default=1024, help="sums to test with (default: 1024)")
    result.add_argument("--seed", type=int, default=0, help="of tasks and sampling (default: 0)")
    result.add_argument("--output", type=Path, help="folder for the trained model")
    result.add_argument("--json", action="store_true", help="print a JSON line last")
    return result


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = common_parser(__doc__, updates=100)
    result.add_argument("--lockstep", action="store_true", help="play and learn in turn")
    result.add_argument("--stale", choices=get_args(Stale), default="wait", help="old tokens (default: wait)")
    result.add_argument("--max-staleness", type=int, default=1, help="in updates, but for keep (default: 1)")
    result.add_argument("--mode", choices=get_args(UpdateMode), default="keep", help="of updates (default: keep)")
    result.add_argument("--workers", type=int, default=0, help="Ray processes that play (default: 0, in this one)")
    result.add_argument("--sums", type=int, default=SUMS, help=f"tasks that are trained on (default: {SUMS})")
    result.add_argument("--products", type=int, default=0, help="tasks beside them that it cannot learn (default: 0)")
    result.add_argument("--grading", type=float, default=0.0, help="mean seconds to grade an answer (default: 0)")
    result.add_argument("--dynamic", action="store_true", help="count only groups whose rewards differ; needs keep")
    result.add_argument("--sampler", action="store_true", help="draw sums by the variance of their rewards")
    result.add_argument("--target", type=float, default=0.95, help="mean reward on held-out sums (default: 0.95)")
    return result


def main() -> None:
    """Train as the arguments say."""
    own = parser()
    args = own.parse_args()
    if args.dynamic and (args.lockstep or args.stale != "keep"):
        own.error("--dynamic takes as many groups as it needs: use it with --stale keep")
    disable_progress_bar()
    rows = sums(args.sums + args.held_out)
    snapshots, counts = train(args, rows[args.held_out :] + sums(args.products, "*"))
    found, tested = first_that_reaches(snapshots, rows[: args.held_out], args.target, args.seed)
    print(f"{args.held_out} held-out sums, updates: mean reward: { ({one.updates: round(v, 3) for one, v in tested}) }")
    if found is None:
        print(f"{args.target} was not reached.")
    else:
        print(f"{args.target} after {found.updates} updates, {found.seconds:.0f} s and {found.tokens} tokens")
    if args.json:
        costs = {one.updates: [one.updates, round(one.seconds, 1), one.tokens] for one in snapshots}
        result: dict[str, Any] = {"reached": found and costs[found.updates], "last": list(costs.values())[-1]}
        result |= {"held_out": [[*costs[one.updates], reward] for one, reward in tested], "counts": counts}
        print(json.dumps(result))


if __name__ == "__main__":
    main()
