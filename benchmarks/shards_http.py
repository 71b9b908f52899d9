"""16,384 concurrent episodes over two Ray shards, when the model is elsewhere.

    python benchmarks/shards_http.py

MultipleChoice episodes, verified, through `RayVectorEnv.rollout` against `benchmarks/chat_stub.py` in a process of its
own. The time starts after the shards have started and before their environments are made. The first row is for replies
after `--latency-ms`: episodes per second from the first request to the last record. In the second row, `hold`, the
latency is so long that all episodes wait at the same time.

Each row has CPU milliseconds per episode of the driver, the shards and Ray's own processes, without the stub. It also
has the largest number of requests at once at the stub, and errors (failed episodes and wrong rewards). Prints one JSON
line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from typing import Any

import aiohttp
import psutil
from rollout_http import ENV_ID, STUB, TASKS, stub

from gym_llm.rollouts.plan import open_plan
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS
from gym_llm.vector import RayVectorEnv


async def play(envs: RayVectorEnv, base_url: str, episodes: int) -> tuple[int, str]:
    """Play the episodes; the number of failed ones and an example of why."""
    errors, example = 0, ""
    async for record in envs.rollout(base_url, open_plan(ENV_ID, tasks=TASKS, episodes=episodes).jobs()):
        if record["error"] is not None:
            errors, example = errors + 1, record["error"]
        elif record["reward"] != 1.0:  # the stub always answers A, which is right
            errors, example = errors + 1, f"reward {record['reward']}: {record['response']}"
    return errors, example


def cpu_seconds() -> float:
    """User and system time of this process and all that it started, but for the stub."""
    started = psutil.Process().children(recursive=True)
    processes = [psutil.Process(), *(process for process in started if str(STUB) not in process.cmdline())]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


async def measure(num_envs: int, num_shards: int, episodes: int, latency_ms: float) -> dict[str, Any]:
    """One row."""
    with RayVectorEnv(ENV_ID, num_envs, num_shards=num_shards, tasks=TASKS, env_wrappers=DEFAULT_WRAPPERS) as envs:
        async with stub(50.0) as base_url:
            await play(envs, base_url, 64 * num_shards)  # imports and first compilations of schemas: paid once
        async with stub(latency_ms) as base_url, aiohttp.ClientSession() as session:
            before, began = cpu_seconds(), time.perf_counter()
            errors, example = await play(envs, base_url, episodes)
            seconds, cpu = time.perf_counter() - began, cpu_seconds() - before
            async with session.get(base_url.removesuffix("/v1") + "/stats") as reply:
                stats = await reply.json()
    return {
        "num_envs": num_envs,
        "num_shards": num_shards,
        "latency_ms": latency_ms,
        "episodes": episodes,
        "seconds": round(seconds, 2),
        "episodes_per_s": round(episodes / seconds, 1),
        "cpu_ms_per_episode": round(cpu / episodes * 1e3, 3),
        "peak_in_flight": stats["peak_in_flight"],
        "errors": errors,
        "example_error": example,
    }


def main() -> None:
    """Measure both rows; progress on stderr, the last line of stdout is the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=16_384, help="episodes at once (default: 16384)")
    parser.add_argument("--num-shards", type=int, default=2, help="processes that hold them (default: 2)")
    parser.add_argument("--episodes", type=int, default=32_768, help="of the first row (default: 32768)")
    parser.add_argument("--latency-ms", type=float, default=50.0, help="of the stub (default: 50)")
    parser.add_argument("--hold-ms", type=float, default=20_000.0, help="latency of the hold row, 0 for none (20000)")
    args = parser.parse_args()
    plan = [("rollout", args.episodes, args.latency_ms)]
    if args.hold_ms > 0:
        plan.append(("rollout (hold)", args.num_envs, args.hold_ms))
    rows = []
    for what, episodes, latency_ms in plan:
        row = {"what": what, **asyncio.run(measure(args.num_envs, args.num_shards, episodes, latency_ms))}
        rows.append(row)
        print(
            "{what:>15}  {num_envs:>6} at once in {num_shards} shards: {episodes_per_s:>7.0f} episodes/s, "
            "{cpu_ms_per_episode:.3f} ms CPU each, {peak_in_flight:>6} in flight, {errors} errors".format(**row),
            file=sys.stderr,
            flush=True,
        )
        if row["example_error"]:
            print(f"                 {row['example_error']}", file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "shards_http", "cpus": os.cpu_count(), "promised": 3_000, "rows": rows}))


if __name__ == "__main__":
    main()
