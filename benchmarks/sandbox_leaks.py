"""Look for leaks after thousands of runs in a sandbox whose own processes are killed at random.

    python benchmarks/sandbox_leaks.py [--runs 10000] [--seed 0] [--alone]

It runs right programs, failing ones, programs that exceed each limit, sessions, and runs that are cancelled at a random
moment. In the first half, it kills supervisors of one sandbox. In the second half it also kills bubblewrap and the first
process, and makes a new sandbox every few hundred runs. A verdict must be the program's own, whatever is killed. A run may
fail only if something was killed during it.

These must be the same afterwards:

- processes (this process adopts orphans), mounts, temporary files, open descriptors, tasks and namespaces;
- the memory of this process and of the sandbox's first process, both after a warm-up.

The memory of the machine and of the kernel is printed, too. It counts only with `--alone`, because other programs change
it. The exit code is 1 if something is left, or a verdict is wrong. Prints one JSON line last.
"""

# ruff: noqa: E501 (programs)

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from gym_llm.errors import SandboxError
from gym_llm.sandbox import Limits, PythonSession, RunResult, Sandbox

MEBI = 1 << 20
SMALL = Limits(cpu_seconds=10, wall_seconds=10, memory_bytes=256 * MEBI, output_bytes=1000)
SANDBOX_USERS = 1_800_000_000  # of a sandbox that root started
NAMESPACES = ("user", "mnt", "pid", "ipc", "uts", "net")
SLABS = ("mnt_cache", "pid_namespace", "user_namespace", "net_namespace", "task_struct")
TOLERANCES = {"MemAvailable": 256 * MEBI, "Slab": 64 * MEBI, "SUnreclaim": 32 * MEBI}
"""Bytes by which the machine's memory may change, in the direction that is worse."""
OWN_GROWTH = 8 * MEBI  # of this process, and of the sandbox's first one: less than 1 KB a run in 10,000
AT_A_TIME = 8
STRIKES, WITHIN = 0.15, 0.05  # of the runs, and seconds after their begin
DEEP = 0.1  # of the strikes in the second half
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER

Play = Callable[[Sandbox, int], Awaitable[bool]]


def case(code: str, right: Callable[[RunResult, int], bool], limits: Limits = SMALL, **options: Any) -> Play:
    """A program that reads a number, and whether a verdict on it is right."""

    async def play(sandbox: Sandbox, number: int) -> bool:
        return right(await sandbox.python(code, stdin=f"{number}\n".encode(), limits=limits, **options), number)

    return play


def passes(limit: str, code: str, **limits: Any) -> Play:
    """A program that passes a limit."""
    values = {name: getattr(SMALL, name) for name in ("cpu_seconds", "wall_seconds", "memory_bytes", "output_bytes")}
    return case(code, lambda run, _: run.limit == limit, Limits(**{**values, **limits}))


async def command(sandbox: Sandbox, number: int) -> bool:
    """No Python, files in and out, and a process that is left running."""
    shell = ["sh", "-c", "cat in > out; (sleep 60; echo late >> out) & exit 4"]
    run = await sandbox.run(shell, files={"in": b"%d" % number}, collect=["out"], limits=SMALL)
    return (run.limit, run.exit_code, run.files) == (None, 4, {"out": b"%d" % number})


async def session(sandbox: Sandbox, number: int) -> bool:
    """State from one cell to the next, an exception, and a thread that goes on."""
    python = PythonSession(sandbox, SMALL)
    try:
        await python.run(
            f"x = {number}; import threading, time; threading.Thread(target=time.sleep, args=(9,)).start()"
        )
        failed = await python.run("1 / 0")
        value = (await python.run("x * 2")).value
        return value == str(number * 2) and "ZeroDivisionError" in (failed.error or "")
    finally:
        await python.close()


DOUBLE = "print(int(input()) * 2)"
CASES: dict[str, tuple[int, Play]] = {
    "right": (50, case(DOUBLE, lambda run, number: run.ok and run.stdout == b"%d\n" % (number * 2))),
    "raises": (8, case("1 / 0", lambda run, _: (run.limit, run.exit_code) == (None, 1))),
    "exits": (8, case("raise SystemExit(int(input()) % 99 + 1)", lambda run, n: run.exit_code == n % 99 + 1)),
    "ends by a signal": (4, case("import os; os.kill(os.getpid(), 11)", lambda run, _: run.signal == 11)),
    "loopback": (4, case("import socket; socket.create_server(('127.0.0.1', 0)); print(1)", lambda run, _: run.ok, loopback=True)),
    "children": (4, case("import os, time\nfor _ in range(5):\n    if not os.fork(): time.sleep(60)\nprint(input())", lambda run, n: run.ok and run.stdout == b"%d\n" % n)),
    "command": (5, command),
    "session": (8, session),
    "output": (3, passes("output", "print('x' * 5000)")),
    "cpu": (2, passes("cpu", "while True: pass", cpu_seconds=0.05)),
    "wall": (2, passes("wall", "import time; time.sleep(60)", wall_seconds=0.05)),
    "memory": (2, passes("memory", "kept = []\nwhile True: kept.append(bytearray(10**6))", memory_bytes=64 * MEBI)),
}  # fmt: skip
"""How often, and what, by name."""


@dataclass
class Soak:
    """Plays runs and kills processes; what came of it is counted."""

    rng: random.Random
    outcomes: Counter[str] = field(default_factory=Counter)
    strikes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    last_strike: float = 0.0

    async def play(self, sandbox: Sandbox, runs: int, *, deep: bool) -> None:
        """Play so many runs in a sandbox, whose supervisors are killed meanwhile.

        Args:
            sandbox: Where.
            runs: How many.
            deep: Whether bubblewrap and the sandbox's first process are killed, too.
        """
        numbers = iter(range(runs))
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_A_TIME):
                group.create_task(self._work(sandbox, numbers, deep))

    async def _work(self, sandbox: Sandbox, numbers: Iterator[int], deep: bool) -> None:
        names, weights = list(CASES), [weight for weight, _ in CASES.values()]
        for _ in numbers:
            name, number = self.rng.choices(names, weights)[0], self.rng.randrange(10**6)
            if self.rng.random() < STRIKES:
                asyncio.get_running_loop().call_later(self.rng.random() * WITHIN, self._strike, deep)
            started = time.monotonic()
            run = asyncio.ensure_future(CASES[name][1](sandbox, number))
            if self.rng.random() < 0.05:
                await asyncio.wait([run], timeout=self.rng.random() / 20)
                run.cancel()
            await asyncio.wait([run])
            if run.cancelled():
                self.outcomes["cancelled"] += 1
            elif isinstance(error := run.exception(), SandboxError):
                self.outcomes["failed"] += 1
                if self.last_strike < started:
                    self.wrong.append(f"{name}: failed, and nothing was killed: {error}")
            elif error is not None:
                self.wrong.append(f"{name}: {type(error).__name__}: {error}")
            else:
                self.outcomes[name] += 1
                if not run.result():
                    self.wrong.append(f"{name}: a wrong verdict")

    def _strike(self, deep: bool) -> None:
        by_kind: dict[str, list[psutil.Process]] = {}
        for process in psutil.Process().children(recursive=True):
            by_kind.setdefault(kind_of(process.pid), []).append(process)
        kinds = ["supervisor"] if not deep or self.rng.random() > DEEP else ["bubblewrap", "first"]
        if among := by_kind.get(kind := self.rng.choice(kinds)):
            victim = self.rng.choice(among)
            self.last_strike = time.monotonic()
            try:
                victim.kill()
                self.strikes[kind] += 1
            except psutil.NoSuchProcess:
                pass


def kind_of(pid: int) -> str:
    """What a process is of a sandbox, by how many namespaces of processes it is in."""
    try:
        with open(f"/proc/{pid}/status") as file:
            text = file.read()
    except OSError:
        return "gone"
    numbers = next((line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:")), [])
    if len(numbers) > 2:
        return "supervisor" if numbers[-1] == "1" else "program"
    return "first" if len(numbers) == 2 and numbers[-1] != "1" else "bubblewrap"


def resident(pid: int | str) -> int:
    """Bytes of a process's memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def first_process() -> int | None:
    """The process that starts supervisors."""
    found = [one.pid for one in psutil.Process().children(recursive=True) if kind_of(one.pid) == "first"]
    return found[0] if found else None


def adopt_orphans() -> None:
    """What loses its parent becomes this process's child, so that nothing gets lost."""
    if ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def bury_orphans() -> None:
    """Wait for adopted processes that have ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def there(folder: str) -> dict[str, set[str]]:
    """What a machine has of what a sandbox may leave, by kind; of what is others', too, only what is a sandbox's."""
    bury_orphans()
    namespaces: set[str] = set()
    processes: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid >= SANDBOX_USERS or process.name == str(os.getpid()):
                namespaces.update(os.readlink(process / "ns" / name) for name in NAMESPACES)
        except OSError:
            continue  # it has ended
    for child in psutil.Process().children(recursive=True):
        processes.add(f"{child.pid} {kind_of(child.pid)}")
    shared = {
        f"{place}/{entry.name}"
        for place in ("/tmp", "/dev/shm")
        for entry in os.scandir(place)
        if entry.stat(follow_symlinks=False).st_uid >= SANDBOX_USERS
    }
    return {
        "processes": processes,
        "mounts": set(Path("/proc/self/mountinfo").read_text().splitlines()),
        "temporary files": set(os.listdir(folder)) | shared,
        "descriptors": {f"{name} {os.path.realpath(f'/proc/self/fd/{name}')}" for name in os.listdir("/proc/self/fd")},
        "namespaces": namespaces,
    }


def machine() -> dict[str, int]:
    """The machine's memory in bytes, and the kernel's objects where they can be seen."""
    figures = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in TOLERANCES:
            figures[name] = int(value.split()[0]) * 1024
    try:
        slabs = Path("/proc/slabinfo").read_text().splitlines()
    except OSError:  # root's alone
        slabs = []
    return figures | {words[0]: int(words[1]) for line in slabs if (words := line.split())[0] in SLABS}


async def soak(runs: int, seed: int, folder: str) -> dict[str, Any]:
    """Play, kill, and compare."""
    played = Soak(random.Random(seed))
    warm = max(100, runs // 20)
    async with Sandbox() as sandbox:  # pools, caches, imports
        await played.play(sandbox, warm, deep=True)
    gc.collect()
    before, own, kernel = there(folder), resident("self"), machine()
    started = time.perf_counter()

    half = (runs - warm) // 2
    async with Sandbox() as sandbox:
        await played.play(sandbox, half // 5, deep=False)
        first, memory = first_process(), 0
        if first is not None:
            memory = resident(first)
        await played.play(sandbox, half - half // 5, deep=False)
        first_growth = None if first is None else resident(first) - memory
    left = runs - warm - half
    while left:
        part = min(left, max(100, runs // 20))
        async with Sandbox() as sandbox:
            await played.play(sandbox, part, deep=True)
        left -= part
    seconds = time.perf_counter() - started

    more: dict[str, set[str]] = {}
    for _ in range(100):  # what was killed takes a moment to go
        gc.collect()
        more = {kind: now - before[kind] for kind, now in there(folder).items()}
        if not any(more.values()):
            break
        await asyncio.sleep(0.1)
    after = machine()
    grown = {"own_mb": resident("self") - own, "first_process_mb": first_growth or 0}
    worse = {name: (before_ - after[name]) * (1 if name == "MemAvailable" else -1) for name, before_ in kernel.items()}
    return {
        "seconds": round(seconds, 1),
        "runs_per_second": round((runs - warm) / seconds, 1),
        "outcomes": dict(played.outcomes),
        "killed": dict(played.strikes),
        "wrong": played.wrong[:20],
        "left": {kind: sorted(names)[:20] for kind, names in more.items()},
        "tasks": len(asyncio.all_tasks()) - 1,
        "grown": {name: round(value / 1e6, 2) for name, value in grown.items()},
        "too_much": [name for name, value in grown.items() if value > OWN_GROWTH],
        "machine": {name: round(value / 1e6, 1) if name in TOLERANCES else value for name, value in worse.items()},
        "machine_too_much": [name for name, most in TOLERANCES.items() if worse.get(name, 0) > most],
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="nothing else runs here: the machine's memory counts, too")
    options = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        figures = asyncio.run(soak(options.runs, options.seed, folder))
        tempfile.tempdir = None
    bad = figures["wrong"] or any(figures["left"].values()) or figures["tasks"] or figures["too_much"]
    bad = bad or (options.alone and figures["machine_too_much"])
    load = os.getloadavg()[0]
    print(json.dumps({"benchmark": "sandbox_leaks", "runs": options.runs, "load": load, **figures}))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
