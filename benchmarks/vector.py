"""Steps per second of vector environments: ours over Ray and in this process, Gymnasium's, and GEM's if installed.

    python benchmarks/vector.py
    pip install gem-llm     # for the GEM rows; in an environment of its own, its requirements are large

Every environment of MultipleChoice gets a whole Responses object each step, and grades it. `lockstep` steps all in one
call. `send/recv`, for ours, receives the environments that are ready. With autoreset `NextStep` (Gymnasium's default)
every second step of this one-turn environment is a reset. With `SameStep` every step is a step and a reset. GEM's row
is its own GuessTheNumber with a text action. Gymnasium's AsyncVectorEnv has a process per environment, so it runs with
only
64. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from episodes import response
from gymnasium.vector import AutoresetMode

from gym_llm.vector import LocalVectorEnv, RayVectorEnv

ENV_ID = "gym_llm/MultipleChoice-v0"
_SECONDS = 3.0
_RUNS = 3
_MOST_PROCESSES = 64
_MOST_THREADS = 1024


def rate(step: Callable[[], int], seconds: float) -> float:
    """Steps per second: the median of three runs after a warm-up; `step` says how many steps it took."""
    step()
    rates = []
    for _ in range(_RUNS):
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            steps += step()
        rates.append(steps / (time.perf_counter() - started))
    return statistics.median(rates)


def lockstep(envs: Any, num_envs: int) -> Callable[[], int]:
    """A function that steps all environments once."""
    envs.reset(seed=0)

    def step() -> int:
        envs.step([response("B") for _ in range(num_envs)])
        return num_envs

    return step


def send_recv(envs: Any, num_envs: int) -> Callable[[], int]:
    """A function that takes whatever is ready and answers it."""
    envs.async_reset(seed=0)

    def step() -> int:
        env_ids = envs.recv(min_size=max(1, num_envs // 4))[4]["env_id"].tolist()
        envs.send([response("B") for _ in env_ids], env_ids)
        return len(env_ids)

    return step


def ours(make: Callable[[], Any], num_envs: int, seconds: float) -> tuple[float, float]:
    """Rates of lockstep and of send/recv."""
    with make() as envs:
        together = rate(lockstep(envs, num_envs), seconds)
    with make() as envs:
        apart = rate(send_recv(envs, num_envs), seconds)
    return together, apart


def gem_lockstep(num_envs: int, seconds: float, *, threads: bool) -> float | None:
    """GEM's loop or its threads; None where GEM is not installed."""
    try:
        import gem
    except ImportError as error:
        print(f"no GEM row: {error}", file=sys.stderr)
        return None
    with contextlib.redirect_stdout(sys.stderr):
        envs = gem.make_vec(["game:GuessTheNumber-v0-easy"] * num_envs, async_mode=threads)
        envs.reset()

    def step() -> int:
        envs.step(["\\boxed{7}"] * num_envs)
        return num_envs

    return rate(step, seconds)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 1024, 8192], help="levels")
    parser.add_argument("--num-shards", type=int, default=2, help="processes of RayVectorEnv (default 2)")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help=f"per run (default {_SECONDS:g})")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def told(name: str, num_envs: int, drive: str, autoreset: str, steps_per_s: float | None) -> None:
        if steps_per_s is not None:
            rows.append({"what": name, "num_envs": num_envs, "drive": drive, "autoreset": autoreset,
                         "steps_per_s": round(steps_per_s)})  # fmt: skip
            print(f"{name:14} {num_envs:6} {drive:9} {autoreset:9} {steps_per_s:12,.0f} steps/s", file=sys.stderr)

    for num_envs in options.num_envs:
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            made: dict[str, Callable[[], Any]] = {
                "RayVectorEnv": partial(
                    RayVectorEnv, ENV_ID, num_envs, num_shards=options.num_shards, autoreset_mode=mode
                ),
                "LocalVectorEnv": partial(LocalVectorEnv, ENV_ID, num_envs, autoreset_mode=mode),
            }
            for name, make in made.items():
                together, apart = ours(make, num_envs, options.seconds)
                told(name, num_envs, "lockstep", mode.value, together)
                told(name, num_envs, "send/recv", mode.value, apart)
        kwargs: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "copy": False}
        envs = gym.make_vec(ENV_ID, num_envs=num_envs, vectorization_mode="sync", vector_kwargs=kwargs)
        told("SyncVectorEnv", num_envs, "lockstep", "NextStep", rate(lockstep(envs, num_envs), options.seconds))
        envs.close()
        if num_envs <= _MOST_PROCESSES:
            kwargs["shared_memory"] = False
            envs = gym.make_vec(ENV_ID, num_envs=num_envs, vectorization_mode="async", vector_kwargs=kwargs)
            told("AsyncVectorEnv", num_envs, "lockstep", "NextStep", rate(lockstep(envs, num_envs), options.seconds))
            envs.close()
        told("GEM loop", num_envs, "lockstep", "own", gem_lockstep(num_envs, options.seconds, threads=False))
        if num_envs <= _MOST_THREADS:
            told("GEM threads", num_envs, "lockstep", "own", gem_lockstep(num_envs, options.seconds, threads=True))
    print(json.dumps({"benchmark": "vector", "unit": "steps/s", "rows": rows}))


if __name__ == "__main__":
    main()
