"""Measure how well and how fast `examples/reinforce.py` teaches the pocket model its sums.

    python benchmarks/reinforce_seeds.py --seeds 0 1 2 3 4 --picture docs/images/reinforce.png

Each seed has a process with one thread, `--at-once` of them beside one another. `cpu_s` is what it computed, `wall_s`
what it took on a machine as busy as `load` says. Prints a line for each seed, and one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import torch
from reinforce import mean, train

PROMISED = 0.92
WINDOW = 10


def learn(seed: int, steps: int, learning_rate: float, held_out: int) -> tuple[list[float], dict[str, Any]]:
    """One seed's mean reward at each step, and what came of it at what cost."""
    torch.set_num_threads(1)
    wall, cpu = time.perf_counter(), time.process_time()
    means, before, after = asyncio.run(train(steps, learning_rate, held_out, seed))
    figures = {
        "before": round(before, 4),
        "after": round(after, 4),
        "wall_s": round(time.perf_counter() - wall),
        "cpu_s": round(time.process_time() - cpu),
        "load": round(os.getloadavg()[2], 1),
    }
    return means, figures


def draw(curves: dict[int, list[float]], figures: dict[int, dict[str, Any]], file: Path) -> None:
    """Mean reward against step, a line for each seed, and its held-out sums before and after."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    plot, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for seed, means in curves.items():
        before, after = figures[seed]["before"], figures[seed]["after"]
        smooth = [mean(means[max(0, step - WINDOW) : step]) for step in range(1, len(means) + 1)]
        line = axes.plot(smooth, linewidth=1, alpha=0.8, label=f"seed {seed}: {before:.3f} to {after:.3f} held out")[0]
        axes.plot([0, len(means)], [before, after], "o", color=line.get_color(), clip_on=False, zorder=3)
    axes.axhline(PROMISED, color="grey", linestyle=":")
    axes.set(xlabel="step", ylabel="mean reward, temperature 1", title="REINFORCE: the pocket model on Arithmetic-v0")
    axes.text(0, PROMISED, f"{PROMISED}", color="grey", verticalalignment="bottom")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", title=f"mean of the last {WINDOW} steps (line), 1,024 held-out sums (dot)")
    plot.savefig(file, dpi=120)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="(default: 0 1 2 3 4)")
    parser.add_argument("--steps", type=int, default=200, help="(default: 200)")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="(default: 3e-4)")
    parser.add_argument("--held-out", type=int, default=1024, help="sums to test with (default: 1024)")
    parser.add_argument("--at-once", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--picture", type=Path, help="draw all curves into this file")
    args = parser.parse_args()
    curves: dict[int, list[float]] = {}
    figures: dict[int, dict[str, Any]] = {}
    with ProcessPoolExecutor(args.at_once, multiprocessing.get_context("spawn")) as processes:
        runs = {
            seed: processes.submit(learn, seed, args.steps, args.learning_rate, args.held_out) for seed in args.seeds
        }
        for seed, run in runs.items():
            curves[seed], figures[seed] = run.result()
            print(f"seed {seed}: {figures[seed]}", flush=True)
    if args.picture:
        draw(curves, figures, args.picture)
    result: dict[str, Any] = {"benchmark": "reinforce_seeds", "steps": args.steps, "cpus": os.cpu_count()}
    result |= {name: round(statistics.mean(of[name] for of in figures.values()), 3) for name in ("before", "after")}
    result |= {"lowest_after": min(of["after"] for of in figures.values()), "promised": PROMISED, "seeds": figures}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
