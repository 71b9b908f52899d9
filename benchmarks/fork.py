"""Measure forks of episodes, and check that each leaf of random trees is the episode that is played alone.

    python benchmarks/fork.py                     all of it
    python benchmarks/fork.py --trees 100 --machines 0

1. A fork of a small state, with a history of 40 items: CPU microseconds, the median over rounds. A larger state is
   copied by `copy.deepcopy` and by `StateCopy`.
2. A fork of a machine of the image `host`, which is this machine's /usr: milliseconds, with and without a machine that
   was prepared. Each fork has the file that the original wrote.
3. Random trees: `fork_env` splits episodes of real environments at random turns. Each leaf is then played alone from
   `reset`, with its answers. Observations, rewards, infos and token ids must be equal.

Prints one JSON line last, and ends with code 1 if a leaf differs.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from gym_llm import fork_env
from gym_llm.core.state_copy import StateCopy
from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox.machines.machine import BubblewrapMachine, MachineLimits
from gym_llm.sandbox.machines.rootfs import ImageCache
from gym_llm.types import Item
from gym_llm.wrappers import TokenIdTracking

Say = Callable[[random.Random], list[Item]]
MICROSECONDS, MILLISECONDS = 50.0, 20.0


def text(*choices: str) -> Say:
    """Return what says one of these texts."""
    return lambda rng: [{"type": "message", "role": "assistant", "content": rng.choice(choices)}]


def count(rng: random.Random) -> list[Item]:
    """Add to the counter, or end the episode."""
    if rng.random() < 0.15:
        return text("Done.")(rng)
    arguments = json.dumps({"count": rng.randint(1, 9)})
    return [{"type": "function_call", "name": "increment_counter", "arguments": arguments, "call_id": "call_1"}]


ENVIRONMENTS: dict[str, tuple[dict[str, Any], Say]] = {
    "gym_llm/Counter-v0": ({}, count),
    "gym_llm/Blackjack-v0": ({}, text("<action>hit</action>", "<action>stand</action>")),
    "gym_llm/KuhnPoker-v0": ({"opponents": "random"}, text("pass", "bet")),
    "gym_llm/Sokoban-v0": ({}, text(*(f"<action>{way}</action>" for way in ("up", "down", "left", "right")))),
    "gym_llm/TicTacToe-v0": ({"opponents": "random"}, text(*map(str, range(1, 10)))),
}


def median_microseconds(function: Callable[[], Any], rounds: int = 9, number: int = 1000) -> float:
    """Return the median over rounds of the CPU time of a call: other work shares the machine."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(number):
            function()
        times.append((time.process_time() - start) / number * 1e6)
    return statistics.median(times)


def time_states() -> dict[str, float]:
    """Time forks of Counter after 20 calls, and copies of a larger state."""
    env = gym.make("gym_llm/Counter-v0", max_turns=100).unwrapped
    env.reset(seed=0, options={"task_index": 0})
    rng = random.Random(1)
    while len(env.episode.items) < 40:  # type: ignore[attr-defined]
        if (said := count(rng))[0]["type"] == "function_call":
            env.step(said)
    state = {"board": [[0] * 10 for _ in range(10)], "players": {str(number): [number] for number in range(20)}}
    return {
        "fork_us": median_microseconds(lambda: env.fork(1)),  # type: ignore[attr-defined]
        "fork_same_randomness_us": median_microseconds(lambda: env.fork(1, randomness="same")),  # type: ignore[attr-defined]
        "state_copy_us": median_microseconds(lambda: StateCopy().of(state)),
        "deepcopy_us": median_microseconds(lambda: copy.deepcopy(state)),
    }


async def time_machines(number: int) -> dict[str, Any]:
    """Time forks of a machine that has written a file."""
    times: dict[str, list[float]] = {"machine_ms": [], "prepared_machine_ms": []}
    machine = await BubblewrapMachine(ImageCache().image("host"), MachineLimits()).start()
    try:
        await machine.exec("mkdir /work; seq 1000 > /work/numbers")
        for name in times:
            for _ in range(number):
                if name == "prepared_machine_ms":
                    machine.prepare_forks(1)
                    await machine._spares[0][1]
                start = time.perf_counter()
                fork = await machine.fork()
                times[name].append((time.perf_counter() - start) * 1e3)
                said = (await fork.exec("tail -n 1 /work/numbers")).stdout
                await fork.close()
                if said != "1000\n":
                    sys.exit(f"A fork of the machine has other files: {said!r}")
    finally:
        await machine.close()
    size = sum(file.lstat().st_size for file in Path("/usr").rglob("*") if file.is_file() and not file.is_symlink())
    return {"image_gb": size / 1e9, **{name: statistics.median(values) for name, values in times.items()}}


def answer(say: Say, rng: random.Random, observation: dict[str, Any]) -> list[Item]:
    """Return an answer with token ids that continue those of the last one."""
    (item,) = say(rng)
    last = next((item for item in reversed(observation["input"]) if "generation_token_ids" in item), None)
    before = [1, 2] if last is None else last["prompt_token_ids"] + last["generation_token_ids"]
    ids = [rng.randrange(1000) for _ in range(rng.randint(1, 4))]
    tokens = {
        "prompt_token_ids": [*before, 3],
        "generation_token_ids": ids,
        "generation_log_probs": [-rng.random() for _ in ids],
    }
    return [{**item, **tokens}]


Leaf = tuple[list[list[Item]], list[Any]]
"""The answers of an episode, and what its steps returned."""


def grow(env: Any, say: Say, rng: random.Random, observation: Any, leaf: Leaf, leaves: list[Leaf]) -> None:
    """Play an episode to its end, and its forks, which begin at random turns."""
    answers, steps = list(leaf[0]), list(leaf[1])
    while True:
        if rng.random() < 0.4 and len(leaves) < 12:
            for fork in fork_env(env, rng.randint(1, 2), randomness="same"):
                grow(fork, say, rng, observation, (answers, steps), leaves)
        answers.append(answer(say, rng, observation))
        steps.append(env.step(answers[-1]))
        observation, _, terminated, truncated, _ = steps[-1]
        if terminated or truncated:
            leaves.append((answers, steps))
            env.close()
            return


def check_tree(seed: int) -> tuple[int, int]:
    """Return the leaves of a random tree, and how many differ."""
    rng = random.Random(seed)
    env_id = rng.choice(sorted(ENVIRONMENTS))
    kwargs, say = ENVIRONMENTS[env_id]

    def make() -> tuple[Any, Any]:
        env = TokenIdTracking(gym.make(env_id, max_turns=8, disable_env_checker=True, **kwargs))
        return env, env.reset(seed=seed)[0]

    leaves: list[Leaf] = []
    env, observation = make()
    grow(env, say, rng, observation, ([], []), leaves)
    different = 0
    for answers, steps in leaves:
        alone, _ = make()
        played = [alone.step(one) for one in answers]
        alone.close()
        different += played != steps
    return len(leaves), different


def main() -> None:
    """Run the three parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--machines", type=int, default=10, help="forks of a machine; 0 for none")
    args = parser.parse_args()
    result: dict[str, Any] = {"load": os.getloadavg()[0], **time_states()}
    copies = f"a larger state {result['state_copy_us']:.1f} us (deepcopy {result['deepcopy_us']:.1f})"
    print(f"fork: {result['fork_us']:.1f} us (promised {MICROSECONDS:.0f}), {copies}")
    if args.machines:
        try:
            result |= asyncio.run(time_machines(args.machines))
            prepared, cold = result["prepared_machine_ms"], result["machine_ms"]
            print(f"machine: {prepared:.1f} ms prepared (promised {MILLISECONDS:.0f}), {cold:.0f} ms not")
        except SandboxUnavailable as error:
            print(f"machine: not measured: {error}")
    trees = [check_tree(seed) for seed in range(args.trees)]
    leaves, different = (sum(column) for column in zip(*trees, strict=True)) if trees else (0, 0)
    result |= {"trees": len(trees), "leaves": leaves, "different": different}
    print(f"trees: {len(trees)} with {leaves} leaves, {different} differ")
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
