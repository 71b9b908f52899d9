"""Compare verdicts of the same programs on an idle machine and beside busy loops.

    python benchmarks/sandbox_load.py [--programs N] [--busy 8] [--rounds 1]

There are right programs, wrong ones, and programs that exceed a limit by half. The right ones take up to nine tenths of
their processor time or of their sleep. They use one process, threads, children or another interpreter, and Java and C++
if those compilers exist. Every verdict is compared with the expected one, and the verdicts under load with those without.
The exit code is 1 if one differs. Prints one JSON line last.
"""

# ruff: noqa: E501 (programs)

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from gym_llm.sandbox import Limits, Sandbox
from gym_llm.sandbox.languages import Compiled, Compiler, mounts_for

MEBI = 1 << 20
SECONDS = 0.6
LIMITS = Limits(cpu_seconds=SECONDS, wall_seconds=SECONDS, memory_bytes=64 * MEBI)
JAVA = replace(LIMITS, cpu_seconds=3.0, wall_seconds=3.0, memory_bytes=512 * MEBI)
Verdict = tuple[str | None, int | None, bytes]
OK: Verdict = (None, 0, b"ok\n")
BURN = """
import os, sys, threading, time
def burn(seconds, clock=time.process_time):
    end = clock() + seconds
    while clock() < end: pass
"""


@dataclass(frozen=True)
class Program:
    """What is judged, and the verdict that it deserves: its limit, or its exit code and output."""

    name: str
    code: str
    verdict: Verdict = OK
    limits: Limits = LIMITS
    stdin: bytes = b""
    language: str = "python"


def ends(limit: str) -> Verdict:
    """The verdict on what passes a limit."""
    return limit, None, b""


def burning(share: float) -> list[Program]:
    """Programs that take this share of their processor time."""
    verdict, seconds = (OK if share < 1 else ends("cpu")), share * SECONDS
    codes = {
        "one process": f"burn({seconds})",
        "two threads": f"ts = [threading.Thread(target=burn, args=({seconds / 2}, time.thread_time)) for _ in (1, 2)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()",
        "many short children": f"for _ in range(12):\n    if not os.fork(): burn({seconds / 12}); os._exit(0)\n    os.wait()",
        "children at once": f"for _ in range(4):\n    if not os.fork(): burn({seconds / 4}); os._exit(0)\n"
        "for _ in range(4): os.wait()",
        "between sleeps": f"for _ in range(20): burn({seconds / 20}); time.sleep(0.005)",
    }
    return [Program(f"{name}, {share:g} of cpu", f"{BURN}{code}\nprint('ok')", verdict) for name, code in codes.items()]


def sleeping(share: float) -> list[Program]:
    """Programs that sleep this share of what they may."""
    verdict, seconds = (OK if share < 1 else ends("wall")), share * SECONDS
    codes = {
        "one sleep": f"time.sleep({seconds})",
        "short sleeps": f"for _ in range(50): time.sleep({seconds / 50})",
        "a child that sleeps": f"if not os.fork(): time.sleep({seconds}); os._exit(0)\nos.wait()",
    }
    return [
        Program(f"{name}, {share:g} of wall", f"{BURN}{code}\nprint('ok')", verdict) for name, code in codes.items()
    ]


CPP = """#include <cstdio>
#include <ctime>
int main() { while (clock() < %g * CLOCKS_PER_SEC); puts("ok"); }"""
JAVA_SOURCE = """public class Main { public static void main(String[] a) throws Exception {
java.lang.management.ThreadMXBean own = java.lang.management.ManagementFactory.getThreadMXBean();
while (own.getCurrentThreadCpuTime() < %g * 1e9); System.out.println("ok"); } }"""
MEMORY = "kept = []\ntry:\n    while True: kept.append(b'x' * %d)\nexcept MemoryError:\n    print('ok')"
PROGRAMS = [
    *(program for share in (0.2, 0.5, 0.7, 0.9, 1.5) for program in burning(share)),
    *(program for share in (0.5, 0.8, 1.5) for program in sleeping(share)),
    Program("another interpreter", f"{BURN}import subprocess\nsubprocess.run([sys.executable, '-c', 'sum(range(10**6))'], check=True)\nprint('ok')"),
    Program("reads slowly", "import sys, time\nwhile line := sys.stdin.readline(): time.sleep(0.02)\nprint('ok')", stdin=b"x\n" * 20),
    Program("waits for threads", f"{BURN}import queue\nq = queue.Queue()\nthreading.Thread(target=lambda: [q.put(burn(0.02, time.thread_time)) for _ in range(15)]).start()\nfor _ in range(15): q.get()\nprint('ok')"),
    Program("wrong", "print('no')", (None, 0, b"no\n")),
    Program("wrong, late", f"{BURN}burn(0.4)\nprint('no')", (None, 0, b"no\n")),
    Program("raises", f"{BURN}burn(0.1)\n1 / 0", (None, 1, b"")),
    Program("exits", "import sys\nsys.exit(3)", (None, 3, b"")),
    Program("memory, fast", MEMORY % (1 << 20), ends("memory")),
    Program("memory, in large pieces", MEMORY % (40 << 20), ends("memory")),
    Program("memory, slowly", f"import time\nkept = []\nfor _ in range(90): kept.append(b'x' * {1 << 20}); time.sleep(0.002)\nprint('ok')", ends("memory")),
    Program("memory, for a moment", f"x = b'x' * {100 << 20}\ndel x\nprint('ok')", ends("memory")),
    Program("memory, in children", f"import os, time\nfor _ in range(4):\n    if not os.fork(): kept = b'x' * {30 << 20}; time.sleep(9)\nfor _ in range(4): os.wait()\nprint('ok')", ends("memory")),
    Program("memory, most of it", f"x = b'x' * {40 << 20}\nprint('ok')"),
    Program("output", "print('x' * 10**7)", ends("output")),
    Program("C++, 0.8 of cpu", CPP % (0.8 * SECONDS), language="cpp"),
    Program("C++, 1.5 of cpu", CPP % (1.5 * SECONDS), ends("cpu"), language="cpp"),
    Program("Java, half of cpu", JAVA_SOURCE % 1.0, limits=JAVA, language="java"),
    Program("Java, 1.5 of cpu", JAVA_SOURCE % 4.5, ends("cpu"), JAVA, language="java"),
]  # fmt: skip


async def compiled_programs(compiler: Compiler) -> dict[str, Compiled]:
    """Those that have to be compiled, by name, as far as their compilers are here."""
    found = {}
    for program in PROGRAMS:
        if program.language != "python":
            one = await compiler.compile(program.language, program.code)
            if isinstance(one, Compiled):
                found[program.name] = one
    return found


async def judged(sandbox: Sandbox, compiler: Compiler, compiled: dict[str, Compiled], program: Program) -> Verdict:
    """The verdict on a program."""
    if program.language == "python":
        run = await sandbox.python(program.code, stdin=program.stdin, limits=program.limits)
    else:
        run = await compiler.run(compiled[program.name], stdin=program.stdin, limits=program.limits)
    return ends(run.limit) if run.limit else (None, run.exit_code, run.stdout)


async def compare(programs: list[Program], busy: int, rounds: int) -> dict[str, Any]:
    """Judge every program without load and with it."""
    disagreements, wrong, seconds = [], [], {}
    async with Sandbox() as sandbox, Sandbox(mounts=mounts_for("java")) as with_java:
        compiler = Compiler(with_java)
        compiled = await compiled_programs(compiler)
        programs = [one for one in programs if one.language == "python" or one.name in compiled]
        for number in range(rounds):
            verdicts: dict[str, list[Verdict]] = {}
            for load in ("idle", "busy"):
                loops = [
                    subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"], start_new_session=True)
                    for _ in range(busy if load == "busy" else 0)
                ]
                try:
                    started = time.perf_counter()
                    tasks = (judged(sandbox, compiler, compiled, one) for one in programs)
                    verdicts[load] = await asyncio.gather(*tasks)
                    seconds[f"{load}_seconds"] = round(time.perf_counter() - started, 1)
                finally:
                    for loop in loops:
                        loop.kill()
                        loop.wait()
            for program, idle, loaded in zip(programs, verdicts["idle"], verdicts["busy"], strict=True):
                what = {"round": number, "program": program.name, "idle": idle[:2], "busy": loaded[:2]}
                if idle != loaded:
                    disagreements.append(what)
                if {idle, loaded} != {program.verdict}:
                    wrong.append({**what, "expected": program.verdict[:2]})
    judgements = len(programs) * rounds
    return {
        "programs": len(programs),
        "agreed": judgements - len(disagreements),
        "of": judgements,
        **seconds,
        "disagreements": disagreements,
        "wrong": wrong,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=len(PROGRAMS), help="how many, spread over all of them")
    parser.add_argument("--busy", type=int, default=8, help="busy loops beside them (default 8)")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    count = min(max(1, options.programs), len(PROGRAMS))
    chosen = [PROGRAMS[number * len(PROGRAMS) // count] for number in range(count)]
    load = os.getloadavg()[0]
    figures = asyncio.run(compare(chosen, options.busy, options.rounds))
    print(json.dumps({"benchmark": "sandbox_load", "busy_loops": options.busy, "load_before": load, **figures}))
    sys.exit(1 if figures["wrong"] else 0)


if __name__ == "__main__":
    main()
