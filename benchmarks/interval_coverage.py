"""Measure how often the intervals of `gym_llm.evaluate` cover the truth, in 10,000 simulated runs per scenario.

    python benchmarks/interval_coverage.py                 the analytic intervals, two to six minutes
    python benchmarks/interval_coverage.py --bootstrap     the bootstrap's, of 1,000 runs with 1,000 resamples each

For a mean reward, all tasks have the same chance to be solved (`alike`). Or the chance is from a Beta distribution with
two pseudo-counts (`varied`: some tasks are nearly always solved, some nearly never). Every task is played once or
several times.

If tasks are alike and played once, the number of solved tasks is binomial. One task more or less then moves the
coverage of any interval by several points, and no interval has 95 % for every truth. So some scenarios have one truth
(0.5, 0.1, 0.9), and some have a different truth in each run (`any`, from 0.05 to 0.95).

For a paired difference, the second model solves a share of the tasks that the first does not, or no more than the
first. Prints one JSON line last; `inside` counts the scenarios whose coverage is from 94 to 96 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import product
from typing import Any

import numpy as np

from gym_llm.stats.intervals import estimates, interval

TASKS, REPEATS, TRUTHS = (30, 100, 300), (1, 4, 8), (0.5, 0.1, 0.9, None)
GAINS = (0.0, 0.1)


def mean_rewards(
    rng: np.random.Generator, tasks: int, repeats: int, truth: float | None, varied: bool
) -> tuple[Any, float]:
    """The tasks' shares of solved episodes in one run, and what their mean ought to be."""
    mean = rng.uniform(0.05, 0.95) if truth is None else truth
    chances = rng.beta(2 * mean, 2 * (1 - mean), tasks) if varied else np.full(tasks, mean)
    return rng.binomial(repeats, chances) / repeats, mean


def differences(
    rng: np.random.Generator, tasks: int, repeats: int, truth: float | None, gain: float
) -> tuple[Any, float]:
    """The tasks' differences between two runs, and what their mean ought to be."""
    mean = rng.uniform(0.05, 0.95) if truth is None else truth
    chances = rng.beta(2 * mean, 2 * (1 - mean), tasks)
    better = chances + gain * (1 - chances)
    return (rng.binomial(repeats, better) - rng.binomial(repeats, chances)) / repeats, gain * (1 - mean)


def coverage(draw: Any, runs: int, bounded: bool, resamples: int) -> float:
    """The share of the runs whose interval has the truth in it."""
    covered = 0
    for number in range(runs):
        values, truth = draw()
        ones = np.ones(len(values))
        if resamples:
            (found,) = estimates(values[:, None], ones[:, None], bounded=bounded, seed=number, resamples=resamples)
            low, high = found.bootstrap_low, found.bootstrap_high
        else:
            low, high = interval(values, ones, bounded=bounded)
        covered += low <= truth <= high
    return covered / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help="default: 10,000, or 1,000 with --bootstrap")
    parser.add_argument("--bootstrap", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    runs = arguments.runs or (1000 if arguments.bootstrap else 10_000)
    resamples = 1000 if arguments.bootstrap else 0
    rng, started, found = np.random.default_rng(arguments.seed), time.perf_counter(), {}
    for kind, choices in (("mean", (False, True)), ("difference", GAINS)):
        for tasks, repeats, truth, choice in product(TASKS, REPEATS, TRUTHS, choices):
            draw = mean_rewards if kind == "mean" else differences
            form = ("varied" if choice else "alike") if kind == "mean" else f"gain {choice:g}"
            name = f"{kind}: {tasks} x {repeats}, truth {'any' if truth is None else truth}, {form}"
            arrange = (rng, tasks, repeats, truth, choice)
            found[name] = coverage(lambda draw=draw, a=arrange: draw(*a), runs, kind == "mean", resamples)  # type: ignore[misc]
            print(f"{name:50} {found[name]:7.2%}", file=sys.stderr, flush=True)
    inside = [name for name, share in found.items() if 0.94 <= share <= 0.96]
    result = {
        "runs": runs,
        "interval": "bootstrap" if resamples else "analytic",
        "scenarios": len(found),
        "inside": len(inside),
        "mean_coverage": round(float(np.mean(list(found.values()))), 4),
        "outside": {name: share for name, share in found.items() if name not in inside},
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
