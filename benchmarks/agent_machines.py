"""Measure agents' programs inside of machines: the start of one with a warm layer, and the memory of many at once.

    python benchmarks/agent_machines.py [--starts 20] [--machines 100]

Each machine shows this interpreter and its packages as layers. A start is the time from nothing to the first line of a
Python program in a new machine. Then many machines are open at once, each with a waiting Python program. Their memory
is the proportional share (Pss) of all their processes, files in memory included. Asked: a start within 1 s, and 100
machines within 8 GB. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

import psutil

from gym_llm.sandbox.backends import own_python
from gym_llm.sandbox.machines.machine import PATH, BubblewrapMachine
from gym_llm.sandbox.machines.machine_pool import Machines
from gym_llm.sandbox.machines.rootfs import Image

_AT_A_TIME = 4
_UNBOUNDED = 1e12  # seconds


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


async def measured(starts: int, machines: int) -> dict[str, float]:
    """Return the figures."""
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
    figures = {
        "start_median_seconds": round(statistics.median(times), 3),
        "start_p95_seconds": round(times[int(0.95 * (len(times) - 1))], 3),
        "machines": machines,
        "machines_seconds": round(seconds, 1),
        "machines_gb": round(own_bytes() / 1e9, 3),
        "available_taken_gb": round((free - psutil.virtual_memory().available) / 1e9, 3),
    }
    await asyncio.gather(*(machine.close() for machine in opened))
    pool.close()
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=20, help="programs started one after another")
    parser.add_argument("--machines", type=int, default=100, help="machines at once")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measured(options.starts, options.machines))))
