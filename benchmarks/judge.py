"""Measure a judge's cost per episode: SimpleQA against a stub of a judge's server, with a free policy.

    python benchmarks/judge.py
    python benchmarks/judge.py --episodes 5000 --latency-ms 50

`benchmarks/chat_stub.py` runs as a second process and grades every answer after a fixed latency. The same number of
episodes is played, each in a fresh process, with:

- `unjudged`: the same verifier without its judge;
- `constant`: a judge in this process that always says A, so what asking costs without a network;
- `distinct`: the server, and no answer twice;
- `file`, `file_again`: the same with an SQLite file, which is empty, and full;
- `repeated`: the server, and eight different answers in all.

For each: episodes per second, CPU milliseconds per episode (this process), and requests to the judge. Prints one JSON
line last; the exit code is 1 if `distinct` plays fewer episodes per second than `--least`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

STUB = Path(__file__).with_name("chat_stub.py")
MODES = ("unjudged", "constant", "distinct", "file", "file_again", "repeated")
CONCURRENCY = 512


def tasks(count: int) -> list[dict[str, Any]]:
    questions = [f"What is the {number}th entry of the table?" for number in range(count)]
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": question}]},
            "question": question,
            "expected_answer": "Forty-two",
        }
        for question in questions
    ]


async def play(env_id: str, episodes: int, env_kwargs: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    import gym_llm

    async for record in gym_llm.rollout(
        env_id,
        engine="constant:It is forty-two, as far as I can tell.",
        tasks=rows,
        episodes=episodes,
        concurrency=CONCURRENCY,
        env_kwargs=env_kwargs,
    ):
        if record["reward"] != 1.0:
            raise RuntimeError(f"reward {record['reward']}: {record['error']}")


def measure(mode: str, base_url: str, episodes: int, folder: str, results: Any) -> None:
    import gymnasium as gym

    from gym_llm import Verdict
    from gym_llm.envs.simple_qa.env import SimpleQA

    class Unjudged(SimpleQA):
        async def verify(self, task: Any, episode: Any) -> Verdict:
            return Verdict(float("forty-two" in episode.last_message))

    gym.register("bench/Unjudged-v0", entry_point=Unjudged)
    judge = "constant:A" if mode in ("unjudged", "constant") else base_url
    env_kwargs: dict[str, Any] = {"judge": judge, "judge_endpoint_max_concurrency": CONCURRENCY}
    if mode.startswith("file"):
        env_kwargs["judge_cache"] = f"{folder}/judge.sqlite"
    env_id = "bench/Unjudged-v0" if mode == "unjudged" else "gym_llm/SimpleQA-v0"
    rows = tasks(8 if mode == "repeated" else episodes)
    asyncio.run(play(env_id, 8, {**env_kwargs, "judge_cache": False}, tasks(8)))  # imports, connections
    asked = requests(base_url)
    used, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    asyncio.run(play(env_id, episodes, env_kwargs, rows))
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    results.put(
        {
            "mode": mode,
            "episodes_per_s": round(episodes / seconds),
            "cpu_ms_per_episode": round(1000 * cpu / episodes, 3),
            "requests": requests(base_url) - asked,
        }
    )


def requests(base_url: str) -> int:
    with urlopen(base_url.removesuffix("/v1") + "/stats") as reply:
        count: int = json.load(reply)["requests"]
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000, help="of each kind (default: 10,000)")
    parser.add_argument("--latency-ms", type=float, default=50.0, help="of the judge (default: 50)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="which of them (default: all)")
    parser.add_argument("--least", type=float, default=0.0, help="episodes per second of `distinct` (default: any)")
    args = parser.parse_args()
    command = [sys.executable, str(STUB), "--latency-ms", str(args.latency_ms), "--answer", "A"]
    context = multiprocessing.get_context("spawn")
    rows = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE) as stub, tempfile.TemporaryDirectory() as folder:
        try:
            assert stub.stdout is not None
            base_url = json.loads(stub.stdout.readline())["base_url"]
            for mode in args.modes:
                results = context.Queue()
                process = context.Process(target=measure, args=(mode, base_url, args.episodes, folder, results))
                process.start()
                process.join()
                if process.exitcode:
                    return 1
                row = results.get()
                rows[row.pop("mode")] = row
                print(mode, row, flush=True)
        finally:
            stub.terminate()
    print(json.dumps({"benchmark": "judge", "episodes": args.episodes, "latency_ms": args.latency_ms, **rows}))
    return int("distinct" in rows and rows["distinct"]["episodes_per_s"] < args.least)


if __name__ == "__main__":
    sys.exit(main())
