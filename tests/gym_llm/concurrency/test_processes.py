"""Worker processes with a deadline per call: real processes, real hangs, real crashes."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from gym_llm.concurrency import wait
from gym_llm.concurrency.processes import ProcessPool, shared_pool
from gym_llm.errors import DeadlinePassed, WorkerDied

FUNCTIONS = """
import os, re, signal, time
from gym_llm.concurrency.worker_process import leave_note

def double(x): return 2 * x
def pid(_): return os.getpid()
def hold_the_interpreter(x): return re.match(r"(a+)+$", "a" * 60 + "b") if x == "hang" else x
def crash(x): return os.kill(os.getpid(), signal.SIGKILL) if x == "crash" else x
def crash_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(7)
    return "second try"
class Mute(Exception):
    def __str__(self): raise ValueError
def fail(x): raise Mute if x == "mute" else KeyError(x)
def unpicklable(_): return lambda: None
def shout(x): print("noise on stdout", flush=True); return x
def note_and_hang(text): leave_note(text); return re.match(r"(a+)+$", "a" * 60 + "b") if text != "quick" else text
def count(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
    return "counted"
def hash_of(text): return hash(text)
def eat_memory(_): return len(bytearray(8 << 30))
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that workers can import: `pool_functions`."""
    (tmp_path / "pool_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def gather(pool: ProcessPool, *arguments: object) -> list[object]:
    """The outcomes of concurrent calls, exceptions in their place."""

    async def run() -> list[object]:
        return list(await asyncio.gather(*map(pool.call, arguments), return_exceptions=True))

    return asyncio.run(run())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: object, seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def test_results_come_back_to_whoever_asked(functions: Path) -> None:
    with ProcessPool("pool_functions:double", deadline=5, workers=2) as pool:
        assert gather(pool, *range(500)) == [2 * i for i in range(500)]


def test_a_call_that_holds_the_interpreter_is_killed_and_the_others_are_not(functions: Path) -> None:
    with ProcessPool("pool_functions:hold_the_interpreter", deadline=0.5, workers=1) as pool:
        gather(pool, "warm up")
        outcomes = gather(pool, *range(20), "hang", *range(20, 40))
        assert isinstance(outcomes.pop(20), TimeoutError)
        assert outcomes == list(range(40))


@pytest.mark.slow
def test_a_busy_worker_does_not_hold_up_the_next_call(functions: Path) -> None:
    async def run(pool: ProcessPool) -> None:
        await asyncio.gather(pool.call(1), pool.call(2))
        hanging = asyncio.create_task(pool.call("hang"))
        await asyncio.sleep(0.05)
        assert await pool.call("next") == "next"
        assert not hanging.done()
        with pytest.raises(TimeoutError, match="deadline, 3 s"):
            await hanging

    with ProcessPool("pool_functions:hold_the_interpreter", deadline=3, workers=2) as pool:
        asyncio.run(run(pool))


def test_a_call_that_only_waits_is_ended_too(functions: Path) -> None:
    with ProcessPool("time:sleep", deadline=0.1, workers=1) as pool:
        outcomes = gather(pool, 0, 3600)
        assert outcomes[0] is None
        assert isinstance(outcomes[1], TimeoutError)


def test_a_call_that_computes_is_not_ended_by_the_clock_however_busy_the_machine(functions: Path) -> None:
    async def run(pool: ProcessPool) -> object:
        call = asyncio.create_task(pool.call(0.3))
        await asyncio.sleep(0.1)
        (worker,) = pool._live
        os.kill(worker._process.pid, signal.SIGSTOP)  # as good as a machine on which it gets no time
        await asyncio.sleep(2.5)  # five deadlines
        os.kill(worker._process.pid, signal.SIGCONT)
        return await call

    with ProcessPool("pool_functions:count", deadline=0.5, workers=1) as pool:
        gather(pool, 0)
        assert asyncio.run(run(pool)) == "counted"


@pytest.mark.slow
def test_a_call_leaves_a_note_for_the_case_that_its_deadline_passes(functions: Path) -> None:
    with ProcessPool("pool_functions:note_and_hang", deadline=0.3, workers=1) as pool:
        for note in ("so far \ud800", "", "x" * 100_000):
            _, outcome, _ = gather(pool, "quick", note, "quick")
            assert isinstance(outcome, DeadlinePassed)
            assert outcome.note == (note if 0 < len(note) < 100 else None)


def test_strings_have_the_same_hashes_in_every_worker(functions: Path) -> None:
    hashes = set()
    for _ in range(2):
        with ProcessPool("pool_functions:hash_of", deadline=5, workers=1) as pool:
            hashes.add(gather(pool, "x")[0])
    assert len(hashes) == 1


def test_a_call_that_crashes_its_worker_is_named_after_a_second_try(functions: Path) -> None:
    with ProcessPool("pool_functions:crash", deadline=5, workers=1) as pool:
        outcomes = gather(pool, 1, "crash", 2)
        assert outcomes[0] == 1 and outcomes[2] == 2
        assert isinstance(outcomes[1], WorkerDied)


def test_a_worker_that_dies_once_costs_no_answer(functions: Path, tmp_path: Path) -> None:
    with ProcessPool("pool_functions:crash_once", deadline=5, workers=1) as pool:
        assert gather(pool, str(tmp_path / "flag")) == ["second try"]


def test_exceptions_are_reported_and_the_worker_goes_on(functions: Path) -> None:
    with ProcessPool("pool_functions:fail", deadline=5, workers=1) as pool:
        first, mute, second = gather(pool, "a", "mute", "\ud800")
        assert isinstance(first, RuntimeError) and "pool_functions:fail raised KeyError: 'a'" in str(first)
        assert isinstance(second, RuntimeError) and type(mute) is RuntimeError and "raised Mute: (its" in str(mute)
    with ProcessPool("pool_functions:unpicklable", deadline=5, workers=1) as pool:
        assert "pickle" in str(gather(pool, 1)[0])
        with pytest.raises((AttributeError, TypeError), match="pickle"):
            asyncio.run(pool.call(lambda: None))


def test_what_the_function_prints_does_not_disturb_the_answers(functions: Path) -> None:
    with ProcessPool("pool_functions:shout", deadline=5, workers=1) as pool:
        assert gather(pool, "a\ud800", b"\xff" * 1_000_000) == ["a\ud800", b"\xff" * 1_000_000]


def test_a_worker_runs_out_of_its_own_memory_not_the_machines(functions: Path) -> None:
    with ProcessPool("pool_functions:eat_memory", deadline=5, workers=1) as pool:
        assert "MemoryError" in str(gather(pool, None)[0])


@pytest.mark.parametrize("name", ["no_such_module:f", "math:no_such_function"])
def test_a_function_that_cannot_be_imported_is_reported(name: str) -> None:
    with ProcessPool(name, deadline=5, workers=1) as pool:
        outcome = gather(pool, 1)[0]
        assert isinstance(outcome, RuntimeError) and f"No worker can run {name}" in str(outcome)


def test_wrong_settings_are_refused() -> None:
    for deadline in (0, -1, float("nan"), float("inf"), "5", True):
        with pytest.raises(ValueError, match="deadline"):
            ProcessPool("math:sqrt", deadline=deadline)  # type: ignore[arg-type]
    for workers in (0, -1, 1.5):
        with pytest.raises(ValueError, match="workers"):
            ProcessPool("math:sqrt", deadline=1, workers=workers)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="module:name"):
        ProcessPool("math.sqrt", deadline=1)


def test_loops_and_threads_share_a_pool() -> None:
    pool = shared_pool("math:sqrt", deadline=5.0, workers=1)
    assert shared_pool("math:sqrt", deadline=5.0, workers=1) is pool
    assert shared_pool("math:sqrt", deadline=6.0, workers=1) is not pool
    results: list[float] = []
    threads = [threading.Thread(target=lambda i=i: results.append(asyncio.run(pool.call(i * i)))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [float(i) for i in range(8)]
    assert wait(pool.call(81)) == 9.0


def test_cancelled_calls_and_closed_loops_do_no_harm(functions: Path) -> None:
    async def cancel(pool: ProcessPool) -> None:
        tasks = [asyncio.create_task(pool.call(i)) for i in range(50)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with ProcessPool("pool_functions:double", deadline=5, workers=1) as pool:
        asyncio.run(cancel(pool))
        assert gather(pool, 21) == [42]


def test_closing_kills_the_workers_and_answers_who_waits(functions: Path) -> None:
    pool = ProcessPool("pool_functions:hold_the_interpreter", deadline=60, workers=2)
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.extend(gather(pool, "hang", "hang", "hang", 1)))
    thread.start()
    assert eventually(lambda: len(pool._live) == 2)
    time.sleep(0.5)
    processes = [worker._process for worker in pool._live]
    pool.close()
    thread.join(10)
    assert [isinstance(outcome, RuntimeError) for outcome in outcomes[:3]] == [True] * 3
    assert all(process.returncode is not None for process in processes)  # reaped: no zombies
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(pool.call(1))


PARENT = """
import asyncio, os, sys, time
sys.path.insert(0, sys.argv[1])
from gym_llm.concurrency.processes import shared_pool
pool = shared_pool("pool_functions:" + sys.argv[2], deadline=2.0, workers=1)

async def run():
    print(await shared_pool("pool_functions:pid", deadline=2.0, workers=1).call(None), flush=True)
    if sys.argv[2] == "hold_the_interpreter":
        asyncio.create_task(pool.call("hang"))
    await asyncio.sleep(0.6)
    for worker in pool._live:
        print(worker._process.pid, flush=True)
    print("ready", flush=True)
    await asyncio.sleep(60 if sys.argv[3] == "stay" else 0)

asyncio.run(run())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "end"),
    [
        ("pid", "return"),
        ("pid", "kill"),
        ("pid", "interrupt"),
        ("hold_the_interpreter", "return"),
        ("hold_the_interpreter", "kill"),
    ],
)
def test_workers_end_with_their_parent(functions: Path, function: str, end: str) -> None:
    stay = "go" if end == "return" else "stay"
    command = [sys.executable, "-c", textwrap.dedent(PARENT), str(functions), function, stay]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout is not None
    lines = iter(parent.stdout.readline, "ready\n")
    workers = [int(line) for line in lines]
    assert len(workers) >= 1
    if end == "kill":
        parent.kill()
    elif end == "interrupt":
        parent.send_signal(signal.SIGINT)
    parent.wait(10)
    assert eventually(lambda: not any(map(alive, workers)))
    parent.stdout.close()


def test_a_forked_child_gets_workers_of_its_own_and_lets_go_of_its_parents(functions: Path) -> None:
    def pid() -> int:
        return int(wait(shared_pool("pool_functions:pid", deadline=5.0, workers=1).call(None)))

    ours = pid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child's own process
        os.write(writer, str(pid()).encode())
        os._exit(0)
    os.close(writer)
    theirs = int(os.read(reader, 100))
    os.close(reader)
    os.waitpid(child, 0)
    assert theirs != ours
    assert pid() == ours
    assert eventually(lambda: not alive(theirs))
