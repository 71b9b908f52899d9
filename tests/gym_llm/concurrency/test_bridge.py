from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from gym_llm.concurrency import drive, in_driver, run_blocking, wait


async def later(value: Any, seconds: float = 0.0) -> Any:
    await asyncio.sleep(seconds)
    return value


async def fail() -> None:
    await asyncio.sleep(0)
    raise KeyError("inside")


def test_wait_runs_an_awaitable_where_there_is_no_loop() -> None:
    assert wait(later(4)) == 4


def test_wait_keeps_one_loop_for_what_hooks_open_on_it() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert wait(loop()) is wait(loop())


def test_wait_works_inside_a_running_loop() -> None:
    async def main() -> Any:
        return wait(later(4))

    assert asyncio.run(main()) == 4


def test_wait_takes_any_awaitable() -> None:
    class Awaitable:
        def __await__(self) -> Any:
            return later(5).__await__()

    assert wait(Awaitable()) == 5
    assert asyncio.run(drive(lambda: wait(Awaitable()))) == 5


def test_errors_come_out_where_they_were_waited_for() -> None:
    def caught() -> str:
        try:
            wait(fail())
        except KeyError as error:
            return f"caught {error}"
        return "nothing"

    assert caught() == asyncio.run(drive(caught)) == "caught 'inside'"
    with pytest.raises(KeyError):
        asyncio.run(drive(wait, fail()))


class Patient:
    """Waits, unless it is cancelled; says so. An interrupt may come when it begins to wait."""

    def __init__(self, *, interrupts: bool = False) -> None:
        self.interrupts = interrupts
        self.threads: list[threading.Thread] = []
        self.cancelled = False

    def __await__(self) -> Any:
        return self._wait().__await__()

    async def _wait(self) -> None:
        self.threads.append(threading.current_thread())
        if self.interrupts:
            os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def test_an_interrupt_while_the_thread_is_being_started_leaves_no_thread_behind(monkeypatch) -> None:
    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            while not patient.threads:
                time.sleep(0.001)
            raise KeyboardInterrupt

    async def main() -> None:
        monkeypatch.setattr(threading, "Thread", Interrupted)
        wait(patient)

    patient = Patient()
    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(main())
    loop.close()
    assert patient.cancelled
    assert not patient.threads[0].is_alive()


def test_an_interrupt_before_the_thread_runs_keeps_it_from_beginning(monkeypatch) -> None:
    threads: list[threading.Thread] = []

    class Slow(threading.Thread):
        def start(self) -> None:
            threads.append(self)
            raise KeyboardInterrupt

    async def main() -> None:
        monkeypatch.setattr(threading, "Thread", Slow)
        wait(patient)

    patient = Patient()
    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(main())
    loop.close()
    super(Slow, threads[0]).start()
    threads[0].join(30)
    assert not patient.threads


def test_an_interrupt_under_asyncio_run_reaches_what_is_waited_for() -> None:
    async def main() -> None:
        wait(patient)

    patient = Patient(interrupts=True)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert patient.cancelled
    assert not patient.threads[0].is_alive()


def test_driven_functions_wait_together() -> None:
    barrier = asyncio.Barrier(500)

    async def everybody(n: int) -> int:
        async with asyncio.timeout(60):
            await barrier.wait()
        return n

    def step(n: int) -> int:
        return sum(wait(everybody(n)) for _ in range(3))

    async def main() -> list[int]:
        return await asyncio.gather(*(drive(step, n) for n in range(500)))

    assert asyncio.run(main()) == [3 * n for n in range(500)]


def test_wait_suspends_at_any_depth() -> None:
    def deep(n: int) -> int:
        return wait(later(1)) if n == 0 else deep(n - 1) + 1

    assert asyncio.run(drive(deep, 200)) == 201


def test_driven_says_where_waiting_is_free() -> None:
    assert in_driver() is False
    assert asyncio.run(drive(in_driver)) is True


def test_a_drive_inside_a_drive_works() -> None:
    async def inner() -> Any:
        return await drive(lambda: wait(later(2)) + 1)

    assert asyncio.run(drive(lambda: wait(inner()) + 1)) == 4


def test_context_variables_are_those_of_the_task() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    async def read() -> int:
        await asyncio.sleep(0)
        return variable.get()

    async def episode(n: int) -> tuple[int, int]:
        variable.set(n)
        return await drive(lambda: (variable.get(), wait(read())))

    async def main() -> list[tuple[int, int]]:
        return await asyncio.gather(*(episode(n) for n in range(20)))

    assert asyncio.run(main()) == [(n, n) for n in range(20)]


def test_cancelling_runs_the_functions_cleanup() -> None:
    cleaned = []

    def step() -> None:
        try:
            wait(later(1, 60))
        finally:
            wait(later(1))
            cleaned.append(True)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await drive(step)

    asyncio.run(main())
    assert cleaned == [True]


def test_blocking_work_runs_in_threads_at_once() -> None:
    others = threading.Barrier(16, timeout=60)

    def block() -> str:
        others.wait()
        return threading.current_thread().name

    async def main() -> list[str]:
        return await asyncio.gather(*(run_blocking(block) for _ in range(16)))

    names = asyncio.run(main())
    assert len(set(names)) == 16 and threading.main_thread().name not in names


def _child(queue: Any) -> None:
    queue.put((wait(later(7)), wait(run_blocking(lambda: 8))))


def test_a_forked_child_has_a_loop_and_threads_of_its_own() -> None:
    assert wait(later(1)) == 1 and wait(run_blocking(lambda: 2)) == 2
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    child.join(20)
    assert child.exitcode == 0 and queue.get() == (7, 8)
    assert wait(later(3)) == 3


def test_nothing_is_left_open_when_the_interpreter_ends() -> None:
    code = "import asyncio; from gym_llm.concurrency import *; wait(asyncio.sleep(0)); wait(run_blocking(print, 'ran'))"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_an_interrupted_wait_returns_when_its_work_has_ended() -> None:
    ends = []

    async def work() -> None:
        await asyncio.sleep(0.3)  # meanwhile the caller begins to wait
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(3600)
        finally:
            time.sleep(0.3)
            ends.append("work")

    async def cell() -> None:
        try:
            wait(work())
        finally:
            ends.append("caller")

    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(cell())
    loop.close()
    assert ends == ["work", "caller"]


def test_an_error_of_a_rust_library_makes_no_backtrace_in_a_greenlet():
    pytest.importorskip("openai_harmony")
    code = """
import gym_llm
from gym_llm.engines.constant import ConstantEngine
from gym_llm.wrappers import HarmonyParser

engine = ConstantEngine("<|message|>a<|end|><|message|>a<|end|>")  # no header between: an error of openai_harmony
[record] = gym_llm.collect("gym_llm/Arithmetic-v0", engine, limit=1, wrappers=[HarmonyParser])
print(record["reward"])
"""
    environment = {**os.environ, "RUST_BACKTRACE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0.0\n")
