"""Measure how long benchmarks take until their first reward, from an empty cache and from a full one.

    python benchmarks/benchmark_tasks.py

A local hub serves rows in the shapes of AIME 2025 (30) and MMLU-Pro (14,000). `first_reward` is the whole
command `gym-llm rollout aime25 --episodes 1` from an empty cache. `prepare` converts the second, without importing
`datasets`. `cached` opens it from the cache, `plain_file` opens the same rows. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

_PREPARE = """
import json, sys, time
import datasets, gym_llm.data.hubs.huggingface
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.data.recipes.prepared import prepare
began = time.perf_counter()
found = prepare(find_benchmark("mmlu_pro"))
print(json.dumps({"seconds": time.perf_counter() - began, "rows": found.rows, "path": str(found.path)}))
"""
_OPEN = """
import sys, time
import gymnasium as gym, gym_llm
gym.make("gym_llm/Arithmetic-v0")
began = time.perf_counter()
gym.make("gym_llm/MultipleChoice-v0", tasks=sys.argv[1], prompt_config=sys.argv[2] or None)
print(time.perf_counter() - began)
"""


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


def _seconds(command: list[str], **variables: str) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - began, done.stdout


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=14_000, help="rows in the shape of MMLU-Pro (default 14000)")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median counts (default 3)")
    options = parser.parse_args()
    from hub_server import HubServer, Repo, serving

    hub = HubServer()
    aime = [{"problem": f"What is {n} + {n}?", "answer": 2 * n} for n in range(30)]
    names = [f"option {n} of a question, in words of a usual length" for n in range(10)]
    question = "Which of these sentences is right about the system that is described above? " * 4
    pro = [
        {"question": f"{question}{n}", "options": names, "answer": "ABCDEFGHIJ"[n % 10], "category": "physics"}
        for n in range(options.rows)
    ]
    hub.repos["MathArena/aime_2025"] = Repo(False, {"main": {"data/train-0.parquet": _parquet(aime)}})
    hub.repos["TIGER-Lab/MMLU-Pro"] = Repo(False, {"main": {"data/test-0.parquet": _parquet(pro)}})
    first, prepared, cached, plain = [], [], [], []
    with serving(hub.app()) as url, tempfile.TemporaryDirectory() as folder:
        hub.url = url
        for run in range(options.runs):
            place = {"HF_ENDPOINT": url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": f"{folder}/{run}"}
            command = ["-m", "gym_llm.cli", "rollout", "aime25", "--episodes", "1", "--quiet"]
            first.append(_seconds([sys.executable, *command, "--output", f"{folder}/{run}.jsonl"], **place)[0])
            found = json.loads(_seconds([sys.executable, "-c", _PREPARE], **place)[1].splitlines()[-1])
            prepared.append(found["seconds"])
            prompt = Path(folder, "prompt.yaml")
            prompt.write_text(json.dumps({"user": "{problem}"}))
            cached.append(float(_seconds([sys.executable, "-c", _OPEN, "benchmark:mmlu_pro", ""], **place)[1]))
            plain.append(float(_seconds([sys.executable, "-c", _OPEN, found["path"], str(prompt)], **place)[1]))
    median = statistics.median
    result = {
        "benchmark": "benchmark_tasks",
        "rows": options.rows,
        "first_reward_seconds": round(median(first), 2),
        "prepare_seconds": round(median(prepared), 2),
        "cached_seconds": round(median(cached), 2),
        "plain_file_seconds": round(median(plain), 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
