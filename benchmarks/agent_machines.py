"""Measure agents' programs inside of machines: the start of one with a warm layer, and the memory of many at once.

    python benchmarks/agent_machines.py [--starts 20] [--machines 100] [--harness codex]

Each machine shows this interpreter and its packages as layers. A start is the time from nothing to the first line of a
Python program in a new machine. Then many machines are open at once, each with a waiting Python program. Their memory
is the proportional share (Pss) of all their processes, files in memory included. Asked: a start within 1 s, and 100
machines within 8 GB. Prints one JSON line last.

`--harness` measures a real harness in their place. Its start ends when its first call of the model reaches the engine.
The machines at once are episodes that wait for their first answer, each with its harness.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil

from gym_llm.agents.agent_engine import AgentEngine
from gym_llm.engines import Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.sandbox.backends import own_python
from gym_llm.sandbox.machines.machine import PATH, BubblewrapMachine
from gym_llm.sandbox.machines.machine_pool import Machines
from gym_llm.sandbox.machines.rootfs import Image
from gym_llm.types import ResponseDict

_AT_A_TIME = 4
_UNBOUNDED = 1e12  # seconds
_REQUEST: Any = {"input": [{"role": "user", "content": "Say done."}]}
_NAME = 5  # characters of an episode's name


async def started(image: Image, code: str) -> BubblewrapMachine:
    """Return a new machine in which a Python program runs."""
    machine = await BubblewrapMachine(image, layers=own_python().shown).start()
    header = {
        **{"argv": [sys.executable, "-S", "-c", code], "cwd": "/tmp", "user": "root", "environment": {"PATH": PATH}},
        **{"limits": machine.limits.of_a_run(600.0, _UNBOUNDED).as_json(), "error_bytes": 1000},
    }
    await machine.begin(header, b"")
    return machine


async def seconds_to_start(image: Image) -> float:
    """Return the seconds until a program has run in a new machine."""
    began = time.perf_counter()
    machine = await started(image, "import json; print(json.dumps('begun'))")
    answer, _ = await machine.ended()
    seconds = time.perf_counter() - began
    assert answer["exit_code"] == 0, answer
    await machine.close()
    return seconds


def own_bytes() -> int:
    """Return the proportional memory of all processes that this one has started."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def figures_of(times: list[float], machines: int, seconds: float, free: int) -> dict[str, Any]:
    """Return the figures of starts, and of machines that are open now.

    Args:
        times: The sorted seconds of the starts.
        machines: How many are open.
        seconds: How long that took.
        free: The bytes of memory that were available before.
    """
    return {
        "start_median_seconds": round(statistics.median(times), 3),
        "start_p95_seconds": round(times[int(0.95 * (len(times) - 1))], 3),
        "machines": machines,
        "machines_seconds": round(seconds, 1),
        "machines_gb": round(own_bytes() / 1e9, 3),
        "available_taken_gb": round((free - psutil.virtual_memory().available) / 1e9, 3),
    }


class Waiting(Engine):
    """A model that says when it is asked, and answers when it may."""

    model = "waiting"

    def __init__(self) -> None:
        self.asked: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.may_answer = asyncio.Event()

    async def respond(self, request: Any, *, episode_id: str = "") -> ResponseDict:
        """Answer as soon as it may."""
        self.asked[episode_id[:_NAME]].set()
        await self.may_answer.wait()
        return text_response("done", tokens=([1], [2], [-1.0]), model=self.model)


async def harness_measured(harness: str, starts: int, machines: int) -> dict[str, Any]:
    """Return the figures of a harness."""
    model = Waiting()
    names = iter(f"{number:0{_NAME}}" for number in range(10**_NAME))
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def begun(engine: AgentEngine) -> tuple[str, asyncio.Future[Any]]:
        name = next(names)
        async with slots:
            playing = asyncio.ensure_future(engine.respond(_REQUEST, episode_id=name))
            asked = asyncio.ensure_future(model.asked[name].wait())
            await asyncio.wait({playing, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise RuntimeError(f"{harness} has not asked its model: {playing.exception() or playing.result()}")
        return name, playing

    async def ended(engine: AgentEngine, opened: list[tuple[str, asyncio.Future[Any]]]) -> None:
        model.may_answer.set()
        await asyncio.gather(*(playing for _, playing in opened))
        await asyncio.gather(*(engine.end_episode(name) for name, _ in opened))
        model.may_answer.clear()

    async def seconds_to_ask(engine: AgentEngine) -> float:
        began = time.perf_counter()
        opened = await begun(engine)
        seconds = time.perf_counter() - began
        await ended(engine, [opened])
        return seconds

    async with AgentEngine(agent=harness, engine=model, agent_in="machine") as engine:
        await seconds_to_ask(engine)  # which makes the image, and warms the layers
        times = sorted([await seconds_to_ask(engine) for _ in range(starts)])
        free, began = psutil.virtual_memory().available, time.perf_counter()
        opened = await asyncio.gather(*(begun(engine) for _ in range(machines)))
        seconds = time.perf_counter() - began
        figures = {"harness": engine.name, **figures_of(times, machines, seconds, free)}
        await ended(engine, opened)
    return figures


async def measured(starts: int, machines: int) -> dict[str, Any]:
    """Return the figures of a Python program."""
    pool = Machines()
    image = await pool.image("host")
    await seconds_to_start(image)  # which makes the image, and warms the layer
    times = sorted([await seconds_to_start(image) for _ in range(starts)])
    free = psutil.virtual_memory().available
    began = time.perf_counter()
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def one() -> BubblewrapMachine:
        async with slots:
            return await started(image, "import json, urllib.request, time; time.sleep(3600)")

    opened = await asyncio.gather(*(one() for _ in range(machines)))
    seconds = time.perf_counter() - began
    await asyncio.sleep(2)
    figures = figures_of(times, machines, seconds, free)
    await asyncio.gather(*(machine.close() for machine in opened))
    pool.close()
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=20, help="programs started one after another")
    parser.add_argument("--machines", type=int, default=100, help="machines at once")
    parser.add_argument("--harness", help="a harness, in place of a Python program")
    options = parser.parse_args()
    if options.harness:
        work = harness_measured(options.harness, options.starts, options.machines)
    else:
        work = measured(options.starts, options.machines)
    print(json.dumps(asyncio.run(work)))
