"""A stateful interpreter in the real sandbox."""

import asyncio

import pytest

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import CellResult, Limits, PythonSession, Sandbox


def cells(*codes: str) -> list[CellResult]:
    async def main() -> list[CellResult]:
        async with Sandbox() as sandbox:
            session = PythonSession(sandbox, Limits(cpu_seconds=1, wall_seconds=1))
            try:
                return [await session.run(code) for code in codes]
            finally:
                await session.close()

    try:
        return asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_state_is_kept_and_the_last_value_handed_over():
    results = cells("def f(n):\n    return 1 if n < 2 else n * f(n - 1)", "print('a')\nf(5)", "_ + 1", "'a'")
    assert [result.value for result in results] == [None, "120", "121", "'a'"]
    assert results[1].stdout == "a\n"
    assert results[3].text == "a"


def test_an_exception_keeps_the_state():
    results = cells("x = 1", "print('b'); 1 / 0", "x", "x =", "import sys; sys.exit(2)", "x")
    assert results[1].stdout == "b\n"
    assert "ZeroDivisionError" in (results[1].error or "")
    assert "<cell 2>" in (results[1].error or "")
    assert "SyntaxError" in (results[3].error or "")
    assert results[4].error == "SystemExit: 2"
    assert results[2].value == results[5].value == "1"


@pytest.mark.parametrize(
    ("code", "limit"),
    [("while True: pass", "cpu"), ("import time; time.sleep(60)", "wall"), ("import os; os._exit(4)", None)],
)
def test_a_cell_that_ends_the_interpreter_says_so_and_the_next_begins_anew(code: str, limit: str | None):
    _, ended, after = cells("x = 1", code, "x")
    assert ended.state_lost
    assert ended.limit == limit
    assert "state is lost" in (ended.error or "")
    assert "NameError" in (after.error or "")


def test_what_is_left_running_stands_still_between_cells():
    count = """
import threading, time
n = [0]
def go():
    while True:
        n[0] += 1
        time.sleep(0.001)
threading.Thread(target=go, daemon=True).start()
"""

    async def main() -> tuple[int, int]:
        async with Sandbox() as sandbox:
            session = PythonSession(sandbox)
            await session.run(count)
            first = int((await session.run("n[0]")).value or 0)
            await asyncio.sleep(0.5)
            second = int((await session.run("n[0]")).value or 0)
            await session.close()
            return first, second

    try:
        first, second = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert second - first < 200


def test_a_value_as_long_as_the_limit_is_handed_over():
    results = cells("'[' * (1 << 20)", "'\\x00\\'' * 10**6", "1")
    assert len(results[0].text) == 1 << 20 and len(results[1].text) == 1 << 20 and results[2].text == "1"


def test_an_interpreter_is_as_if_it_had_just_been_started():
    code = """
import random, signal, sys, threading
thread = threading.Thread(target=lambda: signal.pthread_kill(threading.main_thread().ident, 0))
thread.start()
thread.join()
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(threading.current_thread() is threading.main_thread()))
signal.raise_signal(signal.SIGUSR1)
streams = [stream.seekable() for stream in (sys.stdin, sys.stdout, sys.stderr)]
own = [name for name in sys.modules if name.partition(".")[0] == "inside"]
told, streams, own, {"x", "f"} & set(globals()), [path for path in sys.path if path.endswith("gym_llm")]
"""

    async def main() -> list[list[CellResult]]:
        async with Sandbox() as sandbox:
            sessions = [PythonSession(sandbox), PythonSession(sandbox)]
            return [[await session.run(code), await session.run("random.random()")] for session in sessions]

    try:
        first, second = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert first[0].error is None
    assert first[0].value == second[0].value == "([True], [True, False, False], [], set(), [])"
    assert first[1].value != second[1].value
