"""Environments for the vector tests, in a module that shards can import."""

import asyncio
import itertools
import os
import re
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np

from gym_llm import BaseTask, Verdict, VerifierEnv, tool
from gym_llm.concurrency import wait
from gym_llm.errors import EngineError

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


class Judge:
    """A resource that writes down when it is opened and closed."""

    def __init__(self, note: Any) -> None:
        self.note = note

    async def __aenter__(self) -> "Judge":
        await asyncio.sleep(0.001)
        self.note("open", id(self))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0.001)
        self.note("closed", id(self))


async def no_judge() -> None:
    """What makes a resource that cannot be made."""
    await asyncio.sleep(0.001)
    raise EngineError("the judge does not answer")


class Leased(VerifierEnv):
    """Takes a lease in `setup` and gives it back in `teardown`; the row's `traps` say by hook what happens in it.

    Args:
        tasks: See `VerifierEnv`.
        folder: Where to write down what happened, too, a file for each process.
    """

    class Task(BaseTask):
        traps: dict[str, str] = {}

    log: list[tuple[str, int]] = []
    leases = itertools.count()

    def __init__(self, tasks: Any = None, *, folder: str | None = None, **kwargs: Any) -> None:
        self.folder = folder
        super().__init__(tasks, **kwargs)

    def note(self, event: str, number: int) -> None:
        """Write down what happened."""
        Leased.log.append((event, number))
        if self.folder is not None:
            with open(os.path.join(self.folder, f"{os.getpid()}"), "a") as file:
                file.write(f"{event} {number}\n")

    def setup(self, task: Any) -> Any:
        def take() -> int:
            lease = next(Leased.leases)
            self.note("setup", lease)
            return lease

        return self._in(task, "setup", take)

    @tool
    def use(self, state: int) -> Any:
        """Use what was leased."""
        return self._in(self._task, "tool", lambda: f"lease {state}")

    def user_turn(self, task: Any, episode: Any) -> Any:
        return self._in(task, "respond", lambda: None)

    def verify(self, task: Any, episode: Any) -> Any:
        return self._in(task, "verify", lambda: 1.0)

    def teardown(self, task: Any, episode: Any) -> Any:
        self.note("teardown", episode.state)
        return self._in(task, "teardown", lambda: self.note("torn down", episode.state))

    def _in(self, task: Any, hook: str, end: Any) -> Any:
        """Do what the row's trap says, then what the hook is for; a coroutine where that is to be waited for."""
        trap = task.traps.get(hook)
        if trap is None:
            return end()
        if trap == "raise":
            raise ArithmeticError(f"a bug in {hook}")
        if trap == "exit":
            raise SystemExit(3)
        if trap == "loop":
            while True:
                pass
        if trap == "wait":
            wait(asyncio.sleep(0.005))
            return end()
        return self._later(trap, end)

    async def _later(self, trap: str, end: Any) -> Any:
        if trap == "exit later":
            await asyncio.sleep(0.001)
            raise SystemExit(3)
        if trap == "judge":
            assert (await self.shared(("judge", {"model": "strict"}), lambda: Judge(self.note))).note
        elif trap == "no judge":
            await self.shared("no judge", no_judge)
        elif trap == "raise later":
            await asyncio.sleep(0.001)
            raise ArithmeticError("a bug")
        else:
            await asyncio.sleep(1e9 if trap == "hang" else 0.005)
        return end()


HOOKS = ("setup", "tool", "respond", "verify", "teardown")
TRAPS = ("raise", "raise later", "exit", "exit later", "wait", "pause", "judge", "no judge", "hang")


def random_traps(rng: Any, share: float) -> dict[str, str]:
    """A trap in this share of the hooks."""
    return {hook: rng.choice(TRAPS) for hook in HOOKS if rng.random() < share}


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
if "test/Leased-v0" not in gym.registry:
    # Gymnasium's checker raises TypeError in a step that follows a first reset which failed.
    gym.register("test/Leased-v0", entry_point="vector_envs:Leased", disable_env_checker=True)
