"""Programs graded per second: CodeGen's answers in a sandbox and without one, side by side.

`local` steps many environments of this process at once, `ray` those of two shards, as one step of GRPO on a coding
task does: every environment is given an answer, half of them right, and grades it by one unit test. Each pair of back
ends runs right after each other, so compare within a pair. `unsafe` starts an interpreter per run, where bubblewrap
forks one that runs already. Prints one JSON line last.

    python benchmarks/code_gen.py [--answers 2048] [--local-answers 512] [--shards 2]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from episodes import response

from gym_llm.vector import LocalVectorEnv, RayVectorEnv

ENV_ID = "gym_llm/CodeGen-v0"
BACKENDS = ("bubblewrap", "unsafe")
TASK = {
    "responses_create_params": {"input": [{"role": "user", "content": "Print the sum of the numbers of a line."}]},
    "verifier_metadata": {"unit_tests": {"inputs": ["1 2 3\n"], "outputs": ["6\n"], "fn_name": None}},
}
RIGHT = "```python\nprint(sum(map(int, input().split())))\n```"
WRONG = "```python\nprint(max(map(int, input().split())))\n```"


def rate(envs: Any, answers: int) -> float:
    """Episodes per second of one step of all environments, after a warm-up with a few."""
    with envs:
        envs.reset(seed=0)
        envs.step([response(RIGHT)] * answers)  # starts the sandboxes, too
        envs.reset(seed=0)
        started = time.perf_counter()
        rewards = envs.step([response(RIGHT if number % 2 else WRONG) for number in range(answers)])[1]
        seconds = time.perf_counter() - started
    if rewards.sum() != answers // 2:
        raise SystemExit(f"{answers // 2} answers are right, {rewards.sum():g} were paid")
    return answers / seconds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2048, help="episodes of a step over Ray (default 2048)")
    parser.add_argument("--local-answers", type=int, default=512, help="episodes in this process (default 512)")
    parser.add_argument("--shards", type=int, default=2, help="processes over Ray (default 2)")
    options = parser.parse_args()
    result: dict[str, Any] = {"benchmark": "code_gen", "unit": "episodes/s", "answers": options.answers}
    for where, answers in (("local", options.local_answers), ("ray", options.answers)):
        for backend in BACKENDS if answers else ():
            kwargs: dict[str, Any] = {"tasks": [TASK], "env_kwargs": {"sandbox": backend}}
            if where == "ray":
                envs: Any = RayVectorEnv(ENV_ID, answers, num_shards=options.shards, **kwargs)
            else:
                envs = LocalVectorEnv(ENV_ID, answers, **kwargs)
            result[f"{where}_{backend}"] = round(rate(envs, answers), 1)
            print(f"{where:6} {backend:11} {result[f'{where}_{backend}']:8.1f} episodes/s", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
