"""Measure the cost of a waiting episode: up to 65,536 live ones in one process, all inside an asynchronous tool.

    python benchmarks/scale.py

Each episode calls a tool that waits, then answers. Every level runs in a fresh process. It reports seconds, CPU
microseconds per episode, the number of episodes that waited at once, and resident kilobytes per episode. These are the
peak minus the process's memory before. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from typing import Any, cast

import gymnasium as gym
import psutil

import gym_llm
from gym_llm import BaseTask, Episode, VerifierEnv, tool
from gym_llm.engines.engine import Engine
from gym_llm.types import Request, ResponseDict

_TASK = {"responses_create_params": {"input": "Look it up."}}
_CALL = {"type": "function_call", "call_id": "c", "name": "look_up", "arguments": "{}"}
_ANSWER = {"type": "message", "role": "assistant", "content": "found"}


class SlowTool(VerifierEnv):
    """One tool that takes its time."""

    seconds = 0.0
    waiting = 0
    peak = 0

    @tool
    async def look_up(self) -> str:
        """Look it up."""
        SlowTool.waiting += 1
        SlowTool.peak = max(SlowTool.peak, SlowTool.waiting)
        await asyncio.sleep(SlowTool.seconds)
        SlowTool.waiting -= 1
        return "it"

    def verify(self, task: BaseTask, episode: Episode) -> float:
        """Whether the tool answered."""
        return float(any(item.get("output") == "it" for item in episode.items))


class TwoTurns(Engine):
    """Calls the tool, then answers."""

    model = "two turns"

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """A call first, an answer after the tool's output."""
        item = _ANSWER if request["input"][-1].get("type") == "function_call_output" else _CALL
        return {"id": "r", "object": "response", "created_at": 0.0, "model": "two turns", "status": "completed",
                "output": [item]}  # fmt: skip


async def play(episodes: int) -> int:
    """How many of the episodes got the reward."""
    records = gym_llm.rollout(
        "bench/SlowTool-v0", TwoTurns(), tasks=[_TASK], episodes=episodes, concurrency=episodes, wrappers=()
    )
    return sum([int(record["reward"] or 0.0) async for record in records])


def measure(episodes: int, seconds: float) -> dict[str, float]:
    """One level, in this process."""
    gym.register("bench/SlowTool-v0", entry_point=cast(Any, SlowTool))
    asyncio.run(play(64))  # imports, caches
    SlowTool.seconds, SlowTool.peak = seconds, 0
    before = psutil.Process().memory_info().rss
    cpu = time.process_time()
    started = time.perf_counter()
    rewarded = asyncio.run(play(episodes))
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    if rewarded != episodes:
        raise RuntimeError(f"Only {rewarded} of {episodes} episodes were right.")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "episodes": episodes,
        "waiting_at_once": SlowTool.peak,
        "wall_s": round(wall, 2),
        "cpu_us_per_episode": round(cpu / episodes * 1e6, 1),
        "rss_kb_per_episode": round((peak - before) / episodes / 1024, 2),
        "rss_peak_mb": round(peak / 2**20, 1),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[1024, 4096, 16384, 65536], help="levels")
    parser.add_argument("--seconds", type=float, default=15.0, help="that the tool takes (default 15)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.episodes[0], options.seconds)))
        return
    rows = []
    for episodes in options.episodes:
        command = [sys.executable, __file__, "--one", "--episodes", str(episodes), "--seconds", str(options.seconds)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], file=sys.stderr)
    print(json.dumps({"benchmark": "scale", "rows": rows}))


if __name__ == "__main__":
    main()
