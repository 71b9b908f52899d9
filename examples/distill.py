r"""On-policy distillation: a student plays, and a teacher says of each of its tokens how likely it finds it.

The student is the pocket model, the teacher the same model after training. A stream plays the student's episodes. The
teacher scores their tokens (`Engine.score`). The advantage of each token is the log probability of the teacher, less
that of the student. So what the teacher finds likelier becomes more likely. No reward is used:

    pip install -e ".[local]"
    python examples/train_stream.py --output runs/teacher
    python examples/distill.py --teacher runs/teacher --output runs/student

Sums that were never trained on show the mean rewards of the teacher, and of the student before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import torch
from reinforce import mean
from train_stream import ENGINE, ENV_ID, PLAYED, SUMS, common_parser, padded, pocket, sums, update
from transformers.utils.logging import disable_progress_bar

import gym_llm
from gym_llm.trainers.shared.scored_rows import with_scores
from gym_llm.trainers.shared.token_rows import token_rows

EPISODES = 64  # of an update


async def distil(args: argparse.Namespace) -> dict[str, Any]:
    """Distil the teacher into the pocket model; return the held-out rewards and the time."""
    rows = sums(SUMS + args.held_out)
    held_out, trained = rows[: args.held_out], rows[args.held_out :]
    model, tokenizer = pocket()
    torch.set_num_threads(1)  # beside the trainer, each engine computes in a thread of its own
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.0)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=args.updates)
    student = gym_llm.stream(
        ENV_ID,
        "pocket",
        engine_options=ENGINE,
        tasks=trained,
        group_size=1,
        seed=args.seed,
        stale="wait",  # older tokens make the student worse before it becomes better
        max_staleness=1,
        groups_per_update=EPISODES,
        **PLAYED,
    )
    async with student, gym_llm.make_engine(f"transformers:{args.teacher}", threads=1, **ENGINE) as teacher:
        result = {"teacher": await reward(teacher, held_out), "before": await reward(student.engine, held_out)}
        started = time.perf_counter()
        for updates in range(1, args.updates + 1):
            played = [(await anext(student))[0] for _ in range(EPISODES)]
            scored = await with_scores([row for record in played for row in token_rows(record)], teacher=teacher)
            advantages = padded(scored, "teacher_logprobs") - padded(scored, "logprobs")
            await asyncio.to_thread(update, model, optimizer, scored, advantages)
            decay.step()
            await student.update_weights(model.state_dict().items(), mode="keep")
            if updates % 10 == 0 or updates == args.updates:
                apart = -advantages.sum().item() / sum(sum(row.loss_mask) for row in scored)
                print(
                    f"update {updates}/{args.updates}  reward {mean([record['reward'] for record in played]):.3f}  "
                    f"KL {apart:.4f} nats a token  {time.perf_counter() - started:.0f} s",
                    flush=True,
                )
        result["seconds"] = time.perf_counter() - started
        result["after"] = await reward(student.engine, held_out)
    if args.output:
        model.save_pretrained(args.output)
        tokenizer.save_pretrained(args.output)
    return result


async def reward(engine: gym_llm.Engine, held_out: list[dict[str, Any]]) -> float:
    """The mean reward on held-out sums."""
    return mean([record["reward"] async for record in gym_llm.rollout(ENV_ID, engine, tasks=held_out, **PLAYED)])


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = common_parser(__doc__, updates=100)
    result.add_argument("--teacher", type=Path, required=True, help="folder with a trained pocket model")
    return result


def main() -> None:
    """Distil as the arguments say."""
    args = parser().parse_args()
    disable_progress_bar()
    result = asyncio.run(distil(args))
    print(
        f"{args.held_out} held-out sums: teacher {result['teacher']:.3f}, student {result['before']:.3f} before and "
        f"{result['after']:.3f} after {result['seconds']:.0f} s"
    )
    if args.json:
        print(json.dumps({name: round(value, 4) for name, value in result.items()}))


if __name__ == "__main__":
    main()
