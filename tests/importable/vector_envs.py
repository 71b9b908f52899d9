"""Environments for the vector tests, in a module that shards can import."""

import asyncio
import os
import re
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np

from gym_llm import Verdict, VerifierEnv, tool

ROWS = [
    {"responses_create_params": {"input": [{"role": "user", "content": f"Task {n}"}]}, "number": n} for n in range(64)
]


class Odd(VerifierEnv):
    """Pays the task's number; its infos are all that Gymnasium's batching has trouble with."""

    pid = os.getpid()
    colour = "red"

    def generate(self, rng: np.random.Generator) -> dict[str, Any]:
        return ROWS[int(rng.integers(len(ROWS)))]

    def setup(self, task: Any) -> int:
        return int(self.np_random.integers(1000))

    @tool
    def look(self, state: int) -> dict[str, int]:
        """Say the episode's secret."""
        return {"secret": state}

    @tool
    async def rest(self, seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return f"rested {seconds}"

    def verify(self, task: Any, episode: Any) -> Verdict:
        number = task.number
        details: dict[str, Any] = {
            "secret": episode.state,
            "tokens": list(range(number % 3)),
            "array": np.arange(2) + number,
            "half": number / 2,
            "name": f"n{number}",
            "nested": {"deep": {"number": number}, "words": [str(number)]},
        }
        if number % 2:
            details["odd"] = True
        return Verdict(float(number), details, {"base": 1.0, "rest": number - 1.0})


class Ragged(Odd):
    """Infos that make Gymnasium's own batching raise."""

    def verify(self, task: Any, episode: Any) -> Verdict:
        number = task.number
        mixed: list[Any] = [1, None, "text", 2.5, [1, 2], {"a": 1}]
        return Verdict(1.0, {"mixed": mixed[number % len(mixed)], "tokens": np.arange(number % 4)})


class Hostile(VerifierEnv):
    """Does to its process what the row's `trap` says, in `verify`; otherwise pays the task's number."""

    @property
    def node(self) -> str:
        """The Ray node it runs on."""
        import ray

        return ray.get_runtime_context().get_node_id()

    def setup(self, task: Any) -> None:
        if getattr(task, "trap", None) == "setup dies":
            os.kill(os.getpid(), signal.SIGKILL)

    async def verify(self, task: Any, episode: Any) -> float:
        await asyncio.sleep(0.01)
        trap = getattr(task, "trap", None)
        if trap == "loop":
            while True:
                pass
        if trap == "stubborn loop":
            while True:
                try:
                    while True:
                        pass
                except Exception:
                    pass
        if trap == "sleep":
            time.sleep(1e9)
        if trap == "regex":
            re.match(r"(a+)+$", "a" * 64 + "b")
        if trap == "wait":
            await asyncio.sleep(1e9)
        if trap == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if trap == "raise":
            raise ArithmeticError("a bug in the verifier")
        if trap == "exit":
            raise SystemExit(3)
        if trap == "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        if trap == "deaf":
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                pass
        if trap == "lambda":
            return Verdict(1.0, {"function": lambda: None})
        return float(task.number)


class NeedsRow(Odd):
    """Refuses to be made with `broken`."""

    def __init__(self, tasks: Any = None, *, broken: bool = False, **kwargs: Any) -> None:
        if broken:
            raise ValueError("broken is not allowed")
        super().__init__(tasks, **kwargs)


def rows(count: int, traps: dict[int, str] | None = None) -> list[dict[str, Any]]:
    """Rows numbered from 0; those named have a trap."""
    found = [
        {"responses_create_params": {"input": [{"role": "user", "content": f"Task {n}"}]}, "number": n}
        for n in range(count)
    ]
    for n, trap in (traps or {}).items():
        found[n]["trap"] = trap
    return found


for _name in ("Odd", "Ragged", "Hostile", "NeedsRow"):
    if f"test/{_name}-v0" not in gym.registry:
        gym.register(f"test/{_name}-v0", entry_point=f"vector_envs:{_name}")
