"""Measure the cost of the slowest answers: continuous refill, lockstep waves and the ideal schedule.

    python benchmarks/stragglers.py
    python benchmarks/stragglers.py --group-size 8

An engine in this process answers after a latency drawn from a heavy-tailed (Pareto) distribution.

- `rollout`: `gym_llm.rollout`, where a finished slot takes the next task at once.
- `waves`: a lockstep loop, which plays one episode per slot and waits for the last of them before the next wave.
- `ideal`: the computed time that these slots need for these latencies if only waiting takes time.

Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import sys
import time
from typing import Any

import numpy as np

import gym_llm
from gym_llm.engines.engine import Engine
from gym_llm.types import Request, ResponseDict

ENV_ID = "gym_llm/Arithmetic-v0"


class SlowEngine(Engine):
    """Answers an episode after its own latency; a task's episodes are next to each other."""

    model = "slow"

    def __init__(self, latencies: list[float], repeats: int = 1) -> None:
        self._latencies, self._repeats = latencies, repeats

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Wait, then answer."""
        task, _, repeat = episode_id.partition("-")
        await asyncio.sleep(self._latencies[int(task) * self._repeats + int(repeat)])
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": "\\boxed{A}"}
        return {"id": "r", "object": "response", "created_at": 0.0, "model": "slow", "status": "completed",
                "output": [message]}  # fmt: skip


def ideal(latencies: list[float], slots: int) -> float:
    """Seconds that the slots need when each takes the next episode the moment it is free."""
    free_at = [0.0] * slots
    for latency in latencies:
        heapq.heapreplace(free_at, free_at[0] + latency)
    return max(free_at)


async def refill(latencies: list[float], slots: int, group_size: int | None = None) -> float:
    """Seconds of a rollout."""
    engine, tasks = SlowEngine(latencies, group_size or 1), len(latencies) // (group_size or 1)
    started, count = time.perf_counter(), 0
    if group_size:
        async for group in gym_llm.rollout(ENV_ID, engine, limit=tasks, group_size=group_size, concurrency=slots):
            count += sum(record["error"] is None for record in group)
    else:
        async for record in gym_llm.rollout(ENV_ID, engine, limit=tasks, concurrency=slots):
            count += record["error"] is None
    assert count == len(latencies)
    return time.perf_counter() - started


async def waves(latencies: list[float], slots: int, group_size: int | None = None) -> float:
    """Seconds of rollouts of one wave each."""
    started = time.perf_counter()
    for first in range(0, len(latencies), slots):
        await refill(latencies[first : first + slots], slots, group_size)
    return time.perf_counter() - started


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=4096)
    parser.add_argument("--slots", type=int, default=512)
    parser.add_argument("--median", type=float, default=0.3, help="median latency in seconds (default 0.3)")
    parser.add_argument("--shape", type=float, default=1.7, help="Pareto shape; smaller is heavier (default 1.7)")
    parser.add_argument("--longest", type=float, default=6.0, help="longest latency in seconds (default 6)")
    parser.add_argument("--group-size", type=int, help="hand over groups of so many episodes (default: episodes)")
    options = parser.parse_args()
    if (size := options.group_size) and (options.episodes % size or options.slots % size):
        parser.error(f"{options.episodes} episodes and {options.slots} slots are no multiples of {size}.")
    rng = np.random.default_rng(0)
    scale = options.median / 2 ** (1 / options.shape)
    drawn = scale * (1 + rng.pareto(options.shape, options.episodes))
    latencies = np.minimum(drawn, options.longest).tolist()
    best = ideal(latencies, options.slots)
    result: dict[str, Any] = {"benchmark": "stragglers", "episodes": options.episodes, "slots": options.slots}
    result["group_size"] = size
    result["ideal_s"] = round(best, 3)
    for name, play in (("rollout", refill), ("waves", waves)):
        seconds = asyncio.run(play(latencies, options.slots, size))
        result[f"{name}_s"] = round(seconds, 3)
        result[f"{name}_over_ideal"] = round(seconds / best, 3)
        print(f"{name}: {seconds:.2f} s, {seconds / best:.2f} times the ideal {best:.2f} s", file=sys.stderr)
    print(json.dumps({**result, "promised_over_ideal": 1.15}))


if __name__ == "__main__":
    main()
