"""Seconds until `gym-llm --help` and `list` have answered and `import gym_llm` is done, each in a fresh process.

    python benchmarks/startup.py

What Python and Gymnasium take by themselves is measured beside them, in turns, because a machine is not equally fast
all the time. Prints one JSON line last, with medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python": ["-c", "pass"],
    "import gymnasium": ["-c", "import gymnasium"],
    "import gym_llm": ["-c", "import gym_llm"],
    "import gym_llm, gymnasium": ["-c", "import gym_llm, gymnasium"],
    "gym-llm --help": ["-m", "gym_llm.cli", "--help"],
    "gym-llm list": ["-m", "gym_llm.cli", "list"],
}
PROMISED = {"import gym_llm": 0.25, "gym-llm --help": 0.35, "gym-llm list": 1.5}


def measure(arguments: list[str]) -> float:
    """Seconds that a Python with these arguments takes."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="runs of each, of which the median counts (default 10)")
    options = parser.parse_args()
    for arguments in COMMANDS.values():
        measure(arguments)
    runs = [{name: measure(arguments) for name, arguments in COMMANDS.items()} for _ in range(options.runs)]
    medians = {name: round(statistics.median(run[name] for run in runs), 3) for name in COMMANDS}
    print(json.dumps({"benchmark": "startup", "unit": "s", "promised": PROMISED, **medians}))


if __name__ == "__main__":
    main()
