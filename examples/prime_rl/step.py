"""Write a rollout file's episodes as a step of prime-rl's trainer: what its orchestrator would have sent."""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

from gym_llm.records.record_files import read_records
from gym_llm.trainers.prime_rl import training_samples
from gym_llm.trainers.shared.trainer_tasks import task_of


def whole_groups(records: list[Any], group_size: int) -> list[Any]:
    """The records, group by group; a ValueError if a task has more or fewer than a group."""
    groups = defaultdict(list)
    for record in records:
        groups[task_of(record)].append(record)
    for (_, env_id, task), group in groups.items():
        if len(group) != group_size:
            raise ValueError(f"Task {task} of {env_id} has {len(group)} episodes, and --group-size is {group_size}.")
    return [record for group in groups.values() for record in group]


def main() -> None:
    """Read, pack and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rollouts", type=Path, help="a rollout file with token ids, made with --repeats GROUP_SIZE")
    parser.add_argument("output_dir", type=Path, help="the trainer's output_dir")
    parser.add_argument("--step", type=int, default=0, help="the trainer's step (default: 0)")
    parser.add_argument("--group-size", type=int, default=8, help="episodes per task (default: 8)")
    parser.add_argument("--seq-len", type=int, default=4096, help="tokens per micro batch (default: 4096)")
    parser.add_argument("--workers", type=int, default=1, help="the trainer's data-parallel ranks (default: 1)")
    parser.add_argument("--temperature", type=float, default=1.0, help="what was sampled at (default: 1)")
    arguments = parser.parse_args()
    records = [record for _, record in read_records(arguments.rollouts)]
    records = whole_groups(records, arguments.group_size)
    samples = training_samples(records, arguments.group_size, temperature=arguments.temperature)

    from prime_rl.trainer.batch import build_bin_cost, prepare_batch
    from prime_rl.transports.rollouts.filesystem import FileSystemMicroBatchSender

    grid = prepare_batch(samples, arguments.seq_len, arguments.workers, build_bin_cost(None))
    sender = FileSystemMicroBatchSender(arguments.output_dir, arguments.workers, arguments.step)
    asyncio.run(sender.send(grid))


if __name__ == "__main__":
    main()
