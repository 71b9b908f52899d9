"""Right programs that look odd from outside get what they deserve, and so do those that hide what they use."""

import asyncio

import pytest

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import CellResult, Limits, PythonSession, RunResult, Sandbox

LIMITS = Limits(cpu_seconds=2, wall_seconds=5, memory_bytes=300 << 20)
BURN = """
import os, signal, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""
RIGHT = {
    "zombies": """
import os, time
for _ in range(20):
    if os.fork() == 0: os._exit(0)
time.sleep(0.3)""",
    "many open files": """
import os, time
kept = [open('main.py') for _ in range(200)]
for _ in range(11):
    if os.fork() == 0: time.sleep(9)
time.sleep(0.3)""",
    "children that are waited for": f"""{BURN}
for _ in range(40):
    if os.fork() == 0: burn(0.02); os._exit(0)
    os.wait()""",
    "shared arrays": """
import multiprocessing
if __name__ == '__main__':
    assert multiprocessing.Pool(2).map(abs, [-1, 2]) == [1, 2]
    assert multiprocessing.Array('i', [1, 2])[:] == [1, 2]""",
    "flushing everything": "import os; os.sync()",
}


def run(code: str, limits: Limits = LIMITS) -> RunResult:
    async def main() -> RunResult:
        async with Sandbox() as sandbox:
            return await sandbox.python(code, limits=limits)

    try:
        return asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_survives(name: str):
    result = run(RIGHT[name])
    assert (result.limit, result.exit_code, result.stderr) == (None, 0, b"")


@pytest.mark.slow
def test_a_thread_that_computes_is_not_taken_for_sleep_on_a_busy_machine():
    code = f"{BURN}\nimport threading\nt = threading.Thread(target=burn, args=(1.5,)); t.start(); t.join()"

    async def main() -> RunResult:
        async with Sandbox(concurrency=8) as sandbox:
            busy = [asyncio.create_task(sandbox.python("while True: pass", limits=Limits())) for _ in range(5)]
            result = await sandbox.python(code, limits=Limits(cpu_seconds=9, wall_seconds=1))
            for one in busy:
                one.cancel()
            await asyncio.wait(busy)
            return result

    try:
        result = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert (result.limit, result.exit_code) == (None, 0)


@pytest.mark.slow
def test_the_time_of_children_that_nobody_waits_for_counts():
    code = f"""{BURN}
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(6):
    if os.fork() == 0: burn(0.8); os._exit(0)
    try: os.wait()
    except OSError: pass"""
    assert run(code).limit == "cpu"


WAKES = """
import ctypes, os, signal, struct, time
libc = ctypes.CDLL(None)
if os.fork() == 0:
    signal.signal(signal.SIGCONT, lambda *_: None)
    event = ctypes.create_string_buffer(struct.pack("qii48x", 0, signal.SIGCONT, 0), 64)
    for n in range(60):
        timer = ctypes.c_int()
        libc.syscall(222, 1, event, ctypes.byref(timer))
        times = struct.pack("qqqq", 0, 5_000_000, 0, 50_000_000 + n * 5_000_000)
        libc.syscall(223, timer, 0, ctypes.create_string_buffer(times), None)
    while True: pass
time.sleep(0.2)
"""


@pytest.mark.slow
def test_a_session_that_wakes_itself_between_cells_is_ended():
    async def main() -> list[CellResult]:
        async with Sandbox() as sandbox:
            session = PythonSession(sandbox, Limits(cpu_seconds=5, wall_seconds=5))
            results = [await session.run(WAKES)]
            await asyncio.sleep(4)
            results += [await session.run("1"), await session.run("2")]
            await session.close()
            return results

    try:
        first, second, third = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert not first.state_lost
    assert (second.limit, second.state_lost) == ("cpu", True)
    assert third.value == "2"


@pytest.mark.parametrize("files", [["a", "a/b"], ["a", "./a"], [""], ["a" * 256], ["\ud800"], ["../a"], ["/a"]])
def test_a_name_that_no_file_can_have_there_is_refused(files: list[str]):
    async def main() -> None:
        await Sandbox().python("1", files=dict.fromkeys(files, b""))

    with pytest.raises(ValueError, match="name"):
        asyncio.run(main())
