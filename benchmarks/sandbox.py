"""Verifications per second in a sandbox, what starting a session takes, and the memory of idle sessions.

    python benchmarks/sandbox.py [--runs N] [--sessions N]

Processor time counts this process and, if a control group of cpuacct can be made, all processes in the sandbox. Memory
is that of sessions that are open at the same time and have each run a cell. It is given twice: as the processes' shares
(Pss), and as the decrease of MemAvailable, which includes the kernel's memory and other programs.

Use `--sessions 1000` for a thousand sessions. `sandbox_leaks.py` looks for leaks, and `sandbox_load.py` compares
verdicts on a busy machine. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from pathlib import Path

import psutil

from gym_llm.sandbox import PythonSession, Sandbox

GROUP = Path("/sys/fs/cgroup/cpuacct")
PROGRAM = "print(int(input()) * 2)"


def processor_seconds() -> float | None:
    """Of this process's control group; None without one of its own."""
    path = GROUP / f"gym_llm-{os.getpid()}" / "cpuacct.usage"
    return int(path.read_text()) / 1e9 if path.exists() else None


def own_group() -> None:
    """Move this process to a control group of its own, if that can be had."""
    try:
        (GROUP / f"gym_llm-{os.getpid()}").mkdir()
        (GROUP / f"gym_llm-{os.getpid()}" / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        pass


def end_group() -> None:
    """Remove the control group."""
    folder = GROUP / f"gym_llm-{os.getpid()}"
    if folder.exists():
        (GROUP / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(100):  # what was killed takes a moment to go
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def part(process: psutil.Process) -> int:
    """Bytes of a process, of what it shares its part."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.Error, OSError):
        return 0


def available() -> int:
    """Bytes of memory that the machine has left."""
    return int(psutil.virtual_memory().available)


async def speed(runs: int, sessions: int) -> dict[str, float | None]:
    """Runs per second, and what sessions take."""
    async with Sandbox() as sandbox:
        await sandbox.python(PROGRAM, stdin=b"1")
        used, started = processor_seconds(), time.perf_counter()
        await asyncio.gather(*(sandbox.python(PROGRAM, stdin=b"21\n") for _ in range(runs)))
        seconds, after = time.perf_counter() - started, processor_seconds()
        before = sum(map(part, psutil.Process().children(recursive=True)))
        free = available()
        starts, kept = [], []
        for _ in range(sessions):
            kept.append(PythonSession(sandbox))
            started = time.perf_counter()
            await kept[-1].start()
            starts.append(time.perf_counter() - started)
        for number, session in enumerate(kept):
            await session.run(f"x = {number}\nx + 1")
        taken = free - available()
        memory = sum(map(part, psutil.Process().children(recursive=True))) - before
        values = [(await session.run("x")).value for session in kept]
        return {
            "runs_per_second": round(runs / seconds, 1),
            "cpu_ms_per_run": None if used is None or after is None else round((after - used) / runs * 1000, 2),
            "session_start_ms": round(statistics.median(starts) * 1000, 2),
            "idle_sessions": sessions,
            "idle_sessions_that_lost_their_state": sum(value != str(number) for number, value in enumerate(values)),
            "mb_per_idle_session": round(memory / sessions / 1e6, 2),
            "mb_per_idle_session_of_the_machine": round(taken / sessions / 1e6, 2),
        }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--sessions", type=int, default=100)
    options = parser.parse_args()
    own_group()
    try:
        figures: dict[str, object] = {**asyncio.run(speed(options.runs, options.sessions))}
    finally:
        end_group()
    print(json.dumps({"benchmark": "sandbox", "cores": os.cpu_count(), "load": os.getloadavg()[0], **figures}))


if __name__ == "__main__":
    main()
