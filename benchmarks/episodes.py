"""Episodes per second of one process without a model: `reset` + `step` of MultipleChoice through `gym.make`.

    python benchmarks/episodes.py

Every episode does everything that a real one does. The environment's seeded generator draws a task, and the observation
is a request. The action is a Responses object, a new dict each time, which is graded. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import gymnasium as gym

import gym_llm  # noqa: F401 - registers the environments


def response(letter: str) -> dict[str, Any]:
    """What a Responses endpoint returns for a short answer."""
    text = f"Let us see. The options rule each other out, so the answer is \\boxed{{{letter}}}"
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    usage = {"input_tokens": 120, "output_tokens": 24, "total_tokens": 144}
    return {"id": "resp_1", "object": "response", "status": "completed", "output": [message], "usage": usage}


def measure(env: gym.Env[Any, Any], episodes: int) -> float:
    """Episodes per second."""
    letters = [letter for option in env.unwrapped.tasks[0].row["options"] for letter in option]  # type: ignore[attr-defined]
    rewards = 0.0
    started = time.perf_counter()
    for number in range(episodes):
        env.reset()
        _, reward, terminated, _, _ = env.step(response(letters[number % len(letters)]))
        rewards += float(reward)
        if not terminated:
            raise RuntimeError("A single-turn episode did not terminate.")
    elapsed = time.perf_counter() - started
    if not 0 < rewards < episodes:
        raise RuntimeError("The grading did not tell right from wrong.")
    return episodes / elapsed


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50_000, help="episodes per run (default 50000)")
    parser.add_argument("--runs", type=int, default=7, help="runs, of which the median counts (default 7)")
    options = parser.parse_args()
    env = gym.make("gym_llm/MultipleChoice-v0")
    env.reset(seed=0)
    measure(env, options.episodes // 10)
    rates = []
    for run in range(options.runs):
        rates.append(measure(env, options.episodes))
        print(f"run {run + 1}/{options.runs}: {rates[-1]:,.0f} episodes/s", file=sys.stderr)
    figures = {"median": statistics.median(rates), "min": min(rates), "max": max(rates)}
    result = {name: round(rate) for name, rate in figures.items()}
    print(json.dumps({"benchmark": "episodes", "unit": "episodes/s", "promised": 50_000, **result}))


if __name__ == "__main__":
    main()
