"""CodeGen without any sandbox, for `code_gen.py` alone: a program is executed in a worker process, or in a fork of it.

NeMo Gym's `code_gen` forks for each program, too. A program can read the verifier's files and memory, use the network,
and, without a fork, end or change the worker that grades the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from gym_llm import Episode, Verdict
from gym_llm.envs.code_gen.env import CodeGen
from gym_llm.grading.extraction import python_code
from gym_llm.grading.program_output import line_difference

SECONDS = 10


class Workers:
    """Worker processes, for `shared`."""

    def __init__(self, count: int) -> None:
        self.pool = ProcessPoolExecutor(count, multiprocessing.get_context("forkserver"))

    async def aclose(self) -> None:
        """End them."""
        self.pool.shutdown()


class ExecCodeGen(CodeGen):
    """CodeGen's script runner with `exec`.

    Args:
        tasks: As of CodeGen.
        workers: Processes of each event loop.
        fork: Whether a fork of them executes each program.
        **kwargs: As of CodeGen.
    """

    def __init__(self, tasks: Any = None, *, workers: int = 1, fork: bool = True, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self.workers = workers
        self.run = forked if fork else execute

    async def verify(self, task: CodeGen.Task, episode: Episode) -> Verdict:
        """Take out the code, execute it on the tests, and compare."""
        code = python_code(episode.text) or ""
        workers: Workers = await self.shared("workers", lambda: Workers(self.workers))
        tests, result = task.verifier_metadata.unit_tests, []
        for stdin, expected in zip(tests.inputs, tests.outputs, strict=True):
            output = await asyncio.get_running_loop().run_in_executor(workers.pool, self.run, code, stdin)
            result.append(output is not None and line_difference(output, expected) is None)
            if not result[-1]:
                break
        return Verdict(float(all(result)), {"extracted_model_code": code, "result": result})


def execute(code: str, stdin: str) -> str | None:
    """What a program prints, executed in this process; None if it raises."""
    sys.stdin, printed = io.StringIO(stdin), io.StringIO()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "main.py", "exec", dont_inherit=True), {"__name__": "__main__"})  # noqa: S102
    except BaseException:
        return None
    finally:
        signal.alarm(0)
    return printed.getvalue()


def forked(code: str, stdin: str) -> str | None:
    """What `execute` returns in a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        output = execute(code, stdin)
        with open(writing, "w") as pipe:
            pipe.write(output or "")
        os._exit(output is None)
    os.close(writing)
    with open(reading) as pipe:
        output = pipe.read()
    return None if os.waitpid(child, 0)[1] else output
