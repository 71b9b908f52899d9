"""Measure how soon `examples/train_stream.py` reaches its target: in lockstep, as a stream, and with a `TaskSampler`.

    python benchmarks/train_stream_seeds.py --results /tmp/runs.jsonl --picture docs/images
    python benchmarks/train_stream_seeds.py --ways lockstep stream --seeds 0 --updates 40

In `graded_lockstep` and `graded_stream` grading an answer takes 0.3 seconds on average, in place of none. `uniform` and
`sampler` learn only from groups whose rewards differ. Their file has 64 sums, and 192 products that the model cannot
learn.

Each run has the machine alone, unless you start two commands. It is one line of `--results`, and is not repeated if
that line is there. `--picture` draws the reward on held-out sums, against time and against sampled tokens. Prints
one JSON line last: medians over the seeds that reached the target, and in `all` the updates, seconds and tokens of
whole runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"
MIXED = ["--stale", "keep", "--dynamic", "--sums", "64", "--products", "192"]
WAYS: dict[str, list[str]] = {
    "lockstep": ["--lockstep"],
    "stream": [],
    "keep": ["--stale", "keep"],
    "wait": ["--max-staleness", "2"],
    "graded_lockstep": ["--lockstep", "--grading", "0.3"],
    "graded_stream": ["--grading", "0.3"],
    "uniform": MIXED,
    "sampler": [*MIXED, "--sampler"],
}
PANELS = (  # title, column of a test, its name, and a label for each way
    ("sums", 1, "seconds", {"lockstep": "in lockstep", "stream": "stream"}),
    ("graded for 0.3 s", 1, "seconds", {"graded_lockstep": "in lockstep", "graded_stream": "stream"}),
    ("64 sums, 192 products", 2, "sampled tokens", {"uniform": "uniform", "sampler": "TaskSampler"}),
)


def run(way: str, seed: int, more: list[str]) -> dict[str, Any]:
    """Run the example once and return what it printed as JSON."""
    command = [sys.executable, "train_stream.py", "--json", "--seed", str(seed), *WAYS[way], *more]
    done = subprocess.run(command, cwd=EXAMPLES, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"way": way, "seed": seed, "load": round(os.getloadavg()[0], 1), **figures}


def summary(runs: list[dict[str, Any]], way: str) -> dict[str, Any]:
    """The medians of the runs of one way."""
    own = [each for each in runs if each["way"] == way]
    found: dict[str, Any] = {"seeds": len(own), "reached": sum(each["reached"] is not None for each in own)}
    for place, name in enumerate(("updates", "seconds", "tokens")):
        if values := [each["reached"][place] for each in own if each["reached"]]:
            found[name] = statistics.median(values)
    found["all"] = [statistics.median(each["last"][place] for each in own) for place in range(3)]
    found["last"] = round(statistics.mean(each["held_out"][-1][3] for each in own), 4)
    return found


def draw(runs: list[dict[str, Any]], target: float, folder: Path) -> None:
    """Draw the held-out rewards."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    plot, panels = pyplot.subplots(1, len(PANELS), figsize=(13, 4), layout="constrained", sharey=True)
    for axes, (title, column, name, labels) in zip(panels, PANELS, strict=True):
        for color, (way, label) in enumerate(labels.items()):
            for number, each in enumerate(one for one in runs if one["way"] == way):
                curve = zip(*((test[column], test[3]) for test in each["held_out"]), strict=True)
                named = {"label": label} if number == 0 else {}
                axes.plot(*curve, ".-", color=f"C{color}", linewidth=1, alpha=0.7, **named)
        axes.axhline(target, color="grey", linestyle=":")
        axes.set(xlabel=name, title=title)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right", title="a line for each seed")
    panels[0].set(ylabel="mean reward, held-out sums")
    plot.savefig(folder / "train_stream.png", dpi=120)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="(default: all)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="(default: 0 1 2 3 4)")
    parser.add_argument("--updates", type=int, help="of each run (default: the example's)")
    parser.add_argument("--held-out", type=int, default=1024, help="sums to test with (default: 1024)")
    parser.add_argument("--target", type=float, default=0.95, help="mean reward on held-out sums (default: 0.95)")
    parser.add_argument("--results", type=Path, help="JSON lines, one of each run")
    parser.add_argument("--picture", type=Path, help="folder for the figures")
    args = parser.parse_args()
    runs: list[dict[str, Any]] = []
    if args.results and args.results.exists():
        runs = [json.loads(line) for line in args.results.read_text().splitlines()]
    more = ["--held-out", str(args.held_out), "--target", str(args.target)]
    more += ["--updates", str(args.updates)] if args.updates else []
    done = {(each["way"], each["seed"]) for each in runs}
    for seed in args.seeds:  # the ways of a seed one after the other: the machine may become slower or faster
        for way in args.ways:
            if (way, seed) in done:
                continue
            runs.append(run(way, seed, more))
            print(f"seed {seed}, {way}: {runs[-1]['reached']} of {runs[-1]['last']}", file=sys.stderr, flush=True)
            if args.results:
                with args.results.open("a") as file:
                    file.write(json.dumps(runs[-1]) + "\n")
    if args.picture:
        draw(runs, args.target, args.picture)
    ways = {way: summary(runs, way) for way in WAYS if any(each["way"] == way for each in runs)}
    print(json.dumps({"benchmark": "train_stream_seeds", "cpus": os.cpu_count(), "target": args.target, **ways}))


if __name__ == "__main__":
    main()
