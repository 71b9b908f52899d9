"""`gym-llm view` on a large file: how fast it is indexed, listed the next time, searched, and an episode shown.

    python benchmarks/view.py                       100,000 episodes of 20 KB, 2 GB
    python benchmarks/view.py --episodes 10000      a tenth of it

A client measures the command, a separate process, from its start to the reply. A record is a conversation of two turns
with a tool call and a trajectory with log probabilities. The trajectory is three quarters of its bytes, as in real
files. `--no-tokens` makes records of the same size that are text only. The files are removed at the end. Prints one
JSON line last; `peak_mb` is the command's largest resident memory while it listed, sorted and searched.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from gym_llm.utils.json_codec import dumps

PROMISED = {"index_mb_s": 200, "list_s": 2.0, "peak_mb": 300, "show_ms": 100}
TEMPLATES = 50
WORDS = ("the answer is a number that follows from what was given and so we add it up once more",)[0].split()


def template(size: int, with_tokens: bool) -> bytes:
    """A record's line of about this many bytes, with `@TASK@`, `@REPEAT@` and `@REWARD@` in it."""
    tokens = [random.randrange(150_000) for _ in range(size * 3 // 4 // 30 if with_tokens else 0)]
    text_size = size // 4 if with_tokens else size
    text = " ".join(random.choices(WORDS, k=text_size // 5))
    third = len(text) // 3
    call = {"type": "function_call", "name": "add", "arguments": '{"a": 1, "b": 2}', "call_id": "c", "id": "f"}
    record: dict[str, Any] = {
        "responses_create_params": {"input": [{"role": "user", "content": text[:third]}], "tools": []},
        "expected_answer": "41",
        "subject": random.choice(["maths", "physics", "law"]),
        "response": {
            "id": "resp",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": text[third : 2 * third]}]},
                call,
                {"type": "function_call_output", "call_id": "c", "output": "3"},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": text[2 * third :]}],
                },
            ],
            "usage": {"input_tokens": 200, "output_tokens": len(tokens), "total_tokens": 200 + len(tokens)},
        },
        "rollout_id": {"task_index": "@TASK@", "repeat_index": "@REPEAT@"},
        "env_id": "benchmark/Sums-v0",
        "outcome": "scored",
        "reward": "@REWARD@",
        "terminated": True,
        "truncated": False,
        **dict.fromkeys(("failure_kind", "error", "error_phase", "traceback")),
        "info": {"task_index": "@TASK@", "turn": 2, "tool_errors": 0, "extracted_answer": "41", "score": 0.25},
        "trajectory": [
            {
                "input_ids": tokens,
                "loss_mask": [int(n > 200) for n in range(len(tokens))],
                "logprobs": [-random.expovariate(3.0) for _ in tokens],
            }
        ],
        "timing": {"total": 1.5, "engine": 1.25},
        "turn_timing": [{"engine": 0.75, "env": 0.125}] * 2,
        "schema_version": 2,
    }
    return dumps(record)


def write_file(path: Path, episodes: int, size: int, with_tokens: bool) -> None:
    """Write a rollout file; one episode has the word that is searched for."""
    templates = [template(size, with_tokens) for _ in range(TEMPLATES)]
    with open(path, "wb", buffering=1 << 20) as file:
        for n in range(episodes):
            line = (
                templates[n % TEMPLATES].replace(b'"@TASK@"', b"%d" % (n // 8)).replace(b'"@REPEAT@"', b"%d" % (n % 8))
            )
            line = line.replace(b'"@REWARD@"', b"%.1f" % (n * 7 % 11 / 10))
            file.write(
                line.replace(b'"expected_answer":"41"', b'"expected_answer":"Needle"') if n == episodes - 3 else line
            )


class View:
    """The command, running, and a client of it."""

    def __init__(self, path: Path) -> None:
        self.started = time.perf_counter()
        command = [sys.executable, "-m", "gym_llm.cli", "view", str(path), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        url = re.search(r"http://\S+", self.process.stdout.readline())
        assert url is not None
        self._base, _, self._token = url[0].partition("?token=")

    def get(self, name: str, **query: Any) -> tuple[float, Any]:
        """Seconds that an answer takes, and the answer."""
        start = time.perf_counter()
        request = urllib.request.Request(f"{self._base}api/{name}?{urllib.parse.urlencode(query)}")
        request.add_header("X-Token", self._token)
        with urllib.request.urlopen(request) as answer:
            body = answer.read()
        return time.perf_counter() - start, json.loads(body)

    def until_indexed(self) -> float:
        """Seconds from the command's start until the whole file is listed."""
        while self.get("runs")[1][0]["indexed"] < 1:
            time.sleep(0.02)
        return time.perf_counter() - self.started

    def peak_mb(self) -> float:
        """Its largest resident memory so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024  # type: ignore[index]

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(path: Path, episodes: int) -> dict[str, float]:
    """Index a file, open it again, and use it as its page does."""
    cpu = [_children_cpu()]
    for _ in range(2):  # the second time with the file in memory
        for index in path.parent.glob(".*.index"):
            index.unlink()
        view = View(path)
        built = view.until_indexed()
        while not list(path.parent.glob(".*.index")):
            time.sleep(0.05)
        build_peak = view.peak_mb()
        view.close()
        cpu.append(_children_cpu())
    view = View(path)
    opened = view.until_indexed()
    rows_s, rows = view.get("rows", sort="reward", desc=1, limit=200)
    listed = time.perf_counter() - view.started
    assert rows["total"] == episodes, rows["total"]
    stats_s, _ = view.get("stats")
    shown = [view.get("episode", n=random.randrange(episodes))[0] for _ in range(100)]
    start = time.perf_counter()
    while (found := view.get("rows", q="needle", limit=1, deadline_ms=10_000)[1]).get("searched", 1) < 1:
        pass
    search_s = time.perf_counter() - start
    assert found["total"] == 1
    peak = view.peak_mb()
    view.close()
    megabytes = path.stat().st_size / 1e6
    return {
        "megabytes": round(megabytes),
        "build_s": round(built, 2),
        "build_cpu_s": round(cpu[-1] - cpu[-2], 2),
        "index_mb_s": round(megabytes / built),
        "build_peak_mb": round(build_peak),
        "open_s": round(opened, 2),
        "list_s": round(listed, 2),
        "rows_ms": round(1000 * rows_s),
        "stats_ms": round(1000 * stats_s),
        "show_ms": round(1000 * statistics.median(shown), 1),
        "slowest_show_ms": round(1000 * max(shown), 1),
        "search_s": round(search_s, 2),
        "peak_mb": round(peak),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=20_000, help="of a record (default 20,000)")
    parser.add_argument("--no-tokens", action="store_true", help="records without token ids")
    options = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        write_file(path, options.episodes, options.bytes, not options.no_tokens)
        os.sync()  # what is measured reads, and does not wait for what was written
        figures = measure(path, options.episodes)
    print(json.dumps({"benchmark": "view", "episodes": options.episodes, "promised": PROMISED, **figures}))


if __name__ == "__main__":
    main()
