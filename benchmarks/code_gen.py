"""Programs graded per second: CodeGen's answers in a sandbox and without one, side by side.

`local` steps many environments of this process at once, and `ray` those of two shards, like a step of GRPO on a coding
task. Each environment receives an answer and grades it by one unit test; half of the answers are right. The backends of
a pair run one right after the other, so compare within a pair.

`unsafe` starts an interpreter per run, where bubblewrap forks a running one. `fork` and `exec` have no sandbox: a fork
of a worker process runs the program, or the worker itself (`code_gen_exec.py`). Prints one JSON line last.

    python benchmarks/code_gen.py [--only exec] [--answers 2048] [--local-answers 512] [--shards 2]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from episodes import response
from gymnasium.envs.registration import EnvSpec

from gym_llm.vector import LocalVectorEnv, RayVectorEnv

ENV_ID = "gym_llm/CodeGen-v0"
BACKENDS = ("bubblewrap", "fork", "exec", "unsafe")
EXEC = EnvSpec("ExecCodeGen-v0", entry_point="code_gen_exec:ExecCodeGen", disable_env_checker=True)
TASK = {
    "responses_create_params": {"input": [{"role": "user", "content": "Print the sum of the numbers of a line."}]},
    "verifier_metadata": {"unit_tests": {"inputs": ["1 2 3\n"], "outputs": ["6\n"], "fn_name": None}},
}
RIGHT = "```python\nprint(sum(map(int, input().split())))\n```"
WRONG = "```python\nprint(max(map(int, input().split())))\n```"


def rate(envs: Any, answers: int) -> tuple[float, float]:
    """Episodes per second of one step, after a warm-up with a few; milliseconds of this process for each."""
    with envs:
        envs.reset(seed=0)
        few = max(1, answers // 64)
        envs.step(
            [response("No." if number % few else RIGHT) for number in range(answers)]
        )  # starts the sandboxes, too
        envs.reset(seed=0)
        started, used = time.perf_counter(), time.process_time()
        rewards = envs.step([response(RIGHT if number % 2 else WRONG) for number in range(answers)])[1]
        seconds, used = time.perf_counter() - started, time.process_time() - used
    if rewards.sum() != answers // 2:
        raise SystemExit(f"{answers // 2} answers are right, {rewards.sum():g} were paid")
    return answers / seconds, used / answers * 1000


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2048, help="episodes of a step over Ray (default 2048)")
    parser.add_argument("--local-answers", type=int, default=512, help="episodes in this process (default 512)")
    parser.add_argument("--shards", type=int, default=2, help="processes over Ray (default 2)")
    parser.add_argument("--only", action="append", choices=BACKENDS, help="one of them; may be repeated")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    result: dict[str, Any] = {"benchmark": "code_gen", "unit": "episodes/s", "answers": options.answers}
    for where, answers in (("local", options.local_answers), ("ray", options.answers)):
        for backend in (options.only or BACKENDS) if answers else ():
            shards = options.shards if where == "ray" else 1
            env: Any = ENV_ID if backend in ("bubblewrap", "unsafe") else EXEC
            chosen: dict[str, Any] = {"sandbox": backend}
            if env is EXEC:
                chosen = {"workers": max(1, cores // shards), "fork": backend == "fork"}
            kwargs: dict[str, Any] = {"tasks": [TASK], "env_kwargs": chosen}
            load = os.getloadavg()[0]
            if where == "ray":
                found = {"env_vars": {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}}
                envs: Any = RayVectorEnv(env, answers, num_shards=shards, runtime_env=found, **kwargs)
            else:
                envs = LocalVectorEnv(env, answers, **kwargs)
            speed, own = rate(envs, answers)
            result[f"{where}_{backend}"] = {
                "per_s": round(speed, 1),
                "own_cpu_ms": round(own, 2),
                "load": round(load, 2),
            }
            print(f"{where:6} {backend:11} {speed:8.1f} episodes/s (load {load:.1f})", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
