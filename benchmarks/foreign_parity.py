"""Records episodes from other frameworks themselves, and plays them through gym_llm: how many are the same?

    python benchmarks/foreign_parity.py [NAME ...] [--count 200] [--at-once 16] [--keep FOLDER]

A framework that has no environment of Python yet gets one (`gym_llm.envs.theirs.environments`). Each of its episodes is
recorded in that environment without gym_llm, by `foreign_games.py`, `foreign_tasks.py` or `foreign_worlds.py`. Then
`gym-llm env replay` plays them, many at once, and compares observations, rewards and ends value for value. It prints a
table, and the first differences.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from foreign_servers import own_python, serving

from gym_llm.envs.theirs.replay import Replayed, replay

HERE = Path(__file__).resolve().parent
GAMES = ("gymnasium", "minigrid", "ale", "open_spiel", "pettingzoo", "textarena", "gem")
TASKS = ("skyrl_gym", "aviary", "inspect", "lm_eval", "verifiers", "verifiers_v1", "reasoning_gym", "mcp", "openenv")
WORLDS = ("textworld", "scienceworld", "browsergym", "tau2")
FRAMEWORK = {"minigrid": "gymnasium", "ale": "gymnasium"}
SCRIPTS = {"foreign_games.py": GAMES, "foreign_tasks.py": TASKS, "foreign_worlds.py": WORLDS}
NAMES = (*GAMES, *TASKS, *WORLDS)
_SHOWN = 3


def record(name: str, count: int, path: Path) -> None:
    """Have a framework's own Python write its episodes."""
    script = next(script for script, names in SCRIPTS.items() if name in names)
    python = own_python(FRAMEWORK.get(name, name))
    env = {"HF_HUB_OFFLINE": "1", **os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run([str(python), str(HERE / script), name, str(count), str(path)], env=env, check=True)


def memory() -> float:
    """The most memory that this process or one of its children has had, in MB."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024


@contextlib.contextmanager
def folder(kept: str | None) -> Iterator[Path]:
    """The folder of the recorded episodes."""
    if kept is None:
        with tempfile.TemporaryDirectory() as made:
            yield Path(made)
    else:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help="which frameworks; all without")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--keep", help="a folder for the recorded episodes")
    options = parser.parse_args()
    print(f"{'framework':16} {'agreed':>7} {'tried':>7} {'recorded in':>12} {'replayed in':>12} {'peak memory':>11}")
    with folder(options.keep) as place:
        for name in options.names or NAMES:
            path, begun = place / f"{name}.jsonl", time.perf_counter()
            with serving(name) as variables:
                os.environ |= variables
                record(name, options.count, path)
                recorded = time.perf_counter() - begun
                found: Replayed = asyncio.run(replay(path, at_once=options.at_once))
            replayed = time.perf_counter() - begun - recorded
            print(
                f"{name:16} {found.agreed:7} {found.tried:7} {recorded:10.1f} s {replayed:10.1f} s {memory():8.0f} MB",
                flush=True,
            )
            for sentence in [*found.differences[:_SHOWN], *map(str, found.skipped.items())]:
                print(f"  {sentence[:600]}", flush=True)


if __name__ == "__main__":
    main()
