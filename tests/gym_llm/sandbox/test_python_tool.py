"""The Python tool of an episode, in the real sandbox: state, limits, what a hostile call can do, and what is left."""

import asyncio
import copy
import json
import os
import pickle
from pathlib import Path

import gymnasium as gym
import pytest
from testing import function_call, message, outputs, row, wait_for

from gym_llm import BaseTask
from gym_llm.concurrency import drive
from gym_llm.errors import SandboxError, SandboxUnavailable
from gym_llm.sandbox import Sandbox
from gym_llm.sandbox.backends import bubblewrap_path
from gym_llm.sandbox.python_tool import PythonSessionEnv, PythonTool, shortened

NAME = "stateful_python_code_exec"


class Notebook(PythonTool):
    """A verifier with the tool, which pays for a 7."""

    class Task(BaseTask):
        """Nothing."""

    def verify(self, task, episode):
        return float("7" in episode.answer)


@pytest.fixture(autouse=True, scope="module")
def _sandbox_is_there():
    async def start():
        async with Sandbox():
            pass

    try:
        bubblewrap_path()
        asyncio.run(start())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def env():
    env = Notebook(code_exec_timeout_s=1.0, code_exec_max_output_chars=1_000, preload=())
    env.reset(options={"task": row()})
    yield env
    env.close()


def run(env, *codes):
    """The tool's answers to these calls, each in a turn of its own."""
    return [step(env, code)[0] for code in codes]


def step(env, *codes):
    """The tool's answers to these calls, all in one turn."""
    observation, *_ = env.step([function_call(NAME, {"code": code}, f"call_{n}") for n, code in enumerate(codes)])
    return [json.loads(text) for text in outputs(observation)[-len(codes) :]]


def descendants():
    """How many processes have this one above them."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    below, found = {os.getpid()}, -1
    while len(below) != found:
        found = len(below)
        below |= {child for child, parent in parents.items() if parent in below}
    return found


def test_state_is_kept_and_the_last_value_printed(env):
    answers = run(env, "x = 3", "print('a')\nx + 1", "def f(n):\n    return n if n < 2 else n * f(n - 1)", "f(5)")
    assert answers[1] == {"process_status": "completed", "stdout": "a\n4\n", "stderr": ""}
    assert answers[3]["stdout"] == "120\n"


def test_an_error_is_told_and_keeps_the_state(env):
    _, failed, after = run(env, "x = 3", "print('a'); 1 / 0", "x")
    assert (failed["process_status"], failed["stdout"]) == ("error", "a\n")
    assert failed["stderr"].endswith("ZeroDivisionError: division by zero\n")
    assert after["stdout"] == "3\n"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(99)"])
def test_a_call_that_takes_too_long_loses_the_state_and_says_so(env, code):
    _, late, after = run(env, "x = 3", code, "x")
    assert late["process_status"] == "timeout"
    assert late["stderr"].startswith("The code timed out after 1 seconds.") and "state is lost" in late["stderr"]
    assert "NameError" in after["stderr"]
    _, reward, terminated, _, _ = env.step(message("7"))
    assert (reward, terminated) == (1.0, True)
    assert env.tool_use(env.episode) == {"num_tool_calls": 3, "tool_timeout_count": 1}


def test_the_calls_of_a_turn_run_one_after_another_in_their_order(env):
    step(env, "x = []")
    slow = "import time\ntime.sleep(0.05)\nx.append(1)\nx"
    assert [answer["stdout"] for answer in step(env, slow, "x.append(2); x", "x.append(3); x")] == [
        "[1]\n",
        "[1, 2]\n",
        "[1, 2, 3]\n",
    ]


def test_what_is_printed_is_cut(env):
    long, value, endless = run(env, "print('a' * 5000)", "'b' * 5000", "for _ in range(100): print('c' * 1_000_000)")
    for answer, begin in ((long, "a" * 1000), (value, "'" + "b" * 999), (endless, "c" * 1000)):
        assert answer["stdout"] == f"{begin}\n[The rest is left out: it is longer than 1000 characters.]"


ALIVE = {
    "a string of 1 GB and more": ("x = 'a' * (2 << 30)", "MemoryError"),
    "leaving": ("import sys; sys.exit(3)", "SystemExit"),
    "a network": ("import socket; socket.create_connection(('127.0.0.1', 1))", "Error"),
    "the machine's files": ("open('/etc/shadow')", "Error"),
    "a subclass of BaseException": ("class E(BaseException): pass\nraise E('x')", "E: x"),
    "an unprintable error": ("class E(Exception):\n    def __str__(self): raise E\nraise E", "E"),
    "a value that cannot be shown": ("class A:\n    def __repr__(self): return 1 / 0\nA()", "ZeroDivisionError"),
    "deep recursion": ("def f(): f()\nf()", "RecursionError"),
    "killing everybody": ("import os, signal; os.kill(-1, signal.SIGKILL)", "ProcessLookupError"),
    "half a surrogate": ("print('\\ud800')", "UnicodeEncodeError"),
}


@pytest.mark.parametrize("name", ALIVE)
def test_what_a_call_may_try_is_its_own_error(env, name):
    code, said = ALIVE[name]
    _, answer, after = run(env, "x = 3", code, "x")
    assert answer["process_status"] == "error" and said in answer["stderr"]
    assert after["stdout"] == "3\n"


ENDED = {
    "killing itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "leaving at once": "import os; os._exit(0)",
    "exhausting the stack in C": "import ctypes; ctypes.string_at(0)",
    "closing all that is open": "import os\nos.closerange(0, 1000)",
    "half an answer": "import os\nos.write(3, b'\\x00\\x00\\xff\\xff{')\nos._exit(0)",
    "an answer that is none": "import os\nos.write(3, b'\\xff' * 100)\nimport time; time.sleep(1)",
}


@pytest.mark.parametrize("name", ENDED)
def test_what_ends_the_interpreter_is_told_and_the_next_call_begins_anew(env, name):
    _, answer, after, last = run(env, "x = 3", ENDED[name], "x", "print('alive')")
    assert answer["process_status"] in ("error", "timeout")
    assert "its state is lost" in answer["stderr"]
    assert "NameError" in after["stderr"]
    assert last == {"process_status": "completed", "stdout": "alive\n", "stderr": ""}


def test_a_fork_bomb_is_over_with_its_call(env):
    answer, alive = run(env, "import os\nwhile True: os.fork()", "print('alive')")
    assert answer["process_status"] in ("error", "timeout")  # a fork is refused, or all are ended
    assert alive == {"process_status": "completed", "stdout": "alive\n", "stderr": ""}


def test_a_copy_that_a_call_makes_of_the_interpreter_ends_with_the_call(env):
    answers = run(env, "import os\nx = os.getpid()", "os.fork(); None", *["os.getpid() == x"] * 10)
    assert [answer["stdout"] for answer in answers[2:]] == ["True\n"] * 10


HARMLESS = {
    "closing its output": "import os, sys\nsys.stdout.close()\nos.close(2)",
    "another output": "import sys\nsys.stdout = sys.stderr = None",
    "tampering": "import builtins, sys\nsys.modules.clear()\nbuiltins.print = builtins.compile = builtins.exec = None",
    "a forged answer": (
        "import json, os, struct\nhead = json.dumps({'names': ['str'], 'sizes': [6]}).encode()\n"
        "os.write(3, struct.pack('>I', len(head)) + head + b'forged')"
    ),
    "threads without end": "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_whoever_breaks_the_interpreter_has_a_broken_one_and_the_reward_is_as_before(env, name):
    answers = run(env, HARMLESS[name], "x = 3", "x")
    assert all(answer.keys() == {"process_status", "stdout", "stderr"} for answer in answers)
    assert env.step(message("7"))[1] == 1.0


def test_two_episodes_share_nothing(env):
    other = Notebook(preload=())
    other.reset(options={"task": row()})
    run(env, "x = 3; open('f', 'w').write('secret')")
    answers = run(other, "import os\nos.listdir('.')", "os.listdir('/tmp')", "x")
    assert [answer["stdout"] for answer in answers] == ["[]\n", "[]\n", ""]
    others = run(other, "sorted(name for name in os.listdir('/proc') if name.isdigit())")
    assert len(others[0]["stdout"].split()) == 2  # its supervisor, and itself
    other.close()


def test_nothing_runs_after_an_episode():
    nothing = descendants()
    env = Notebook(preload=())
    env.reset(options={"task": row()})
    run(env, "1")
    one = descendants()  # of the sandbox, and the two of an interpreter
    run(env, "import os, time\nfor _ in range(5):\n    if not os.fork():\n        os.setsid(); time.sleep(999)")
    assert descendants() >= one + 5
    env.step(message("7"))
    env.reset(options={"task": row()})  # the last one's teardown is over
    wait_for(lambda: descendants() == one - 2)
    env.close()
    wait_for(lambda: descendants() == nothing)


def test_no_call_starts_nothing():
    env = Notebook(preload=())
    before = descendants()
    env.reset(options={"task": row()})
    assert env.step(message("7"))[1] == 1.0
    assert descendants() == before
    env.close()


def test_a_copy_begins_anew_and_says_so_once(env):
    run(env, "x = 3")
    for again in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        first, second = run(again, "print('x' in dir())", "1")
        assert first["stdout"] == "False\n"
        assert first["stderr"].startswith("The interpreter was started anew") and second["stderr"] == ""
        again.close()
    assert run(env, "x")[0] == {"process_status": "completed", "stdout": "3\n", "stderr": ""}


def test_a_mistake_in_the_code_is_shown_without_ours(env):
    (answer,) = run(env, "x = = 1")
    assert answer["stderr"] == '  File "<cell 1>", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n'


def test_many_episodes_at_once_keep_their_own_state():
    def play(number):
        env = Notebook(preload=())
        env.reset(options={"task": row()})
        run(env, f"x = {number}")
        (answer,) = run(env, "x")
        env.close()
        return int(answer["stdout"])

    async def main():
        return await asyncio.gather(*(drive(play, number) for number in range(20)))

    assert asyncio.run(main()) == list(range(20))


def test_each_step_inside_of_a_running_loop_begins_anew_and_says_so():
    async def main():
        env = Notebook(preload=())
        env.reset(options={"task": row()})
        answers = run(env, "x = 3", "x")
        env.close()
        return answers

    first, second = asyncio.run(main())
    assert first == {"process_status": "completed", "stdout": "", "stderr": ""}
    assert second["stderr"].startswith("The interpreter was started anew") and "NameError" in second["stderr"]


def test_an_episode_that_is_cancelled_in_a_call_leaves_nothing():
    async def main():
        env = Notebook(preload=())
        await drive(env.reset, options={"task": row()})
        await drive(run, env, "x = 3")
        before = descendants()
        playing = asyncio.create_task(drive(run, env, "import time; time.sleep(60)"))
        await asyncio.sleep(0.1)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        await asyncio.to_thread(wait_for, lambda: descendants() < before)
        await drive(env.close)

    asyncio.run(main())


def test_modules_are_preloaded_for_whoever_asks():
    env = Notebook(preload=["colorsys", "no_such_module"])
    env.reset(options={"task": row()})
    assert run(env, "import sys\n'colorsys' in sys.modules")[0]["stdout"] == "True\n"
    env.close()


def test_numpy_is_preloaded_without_threads_that_no_fork_has():
    pytest.importorskip("numpy")
    env = Notebook(preload=["numpy"])
    env.reset(options={"task": row()})
    code = "import os, sys\n'numpy' in sys.modules, len(os.listdir('/proc/self/task'))"
    assert run(env, code)[0]["stdout"] == "(True, 1)\n"
    env.close()


def test_every_new_interpreter_begins_with_the_prelude():
    class Prepared(Notebook):
        """It has a y."""

        prelude = "y = 5"

    env = Prepared(code_exec_timeout_s=1.0, preload=())
    env.reset(options={"task": row()})
    answers = run(env, "y", "y = 6", "y", "import os; os._exit(0)", "y")
    assert [answer["stdout"] for answer in answers] == ["5\n", "", "6\n", "", "5\n"]
    env.close()


def test_wrong_arguments_of_a_call_are_told(env):
    for arguments in ({}, {"code": 3}, "{", {"code": ["x"]}):
        observation, *_ = env.step([function_call(NAME, arguments)])
        assert NAME in json.loads(outputs(observation)[-1])["error"]


@pytest.mark.parametrize(
    "kwargs",
    [
        {"sandbox": "none"},
        {"code_exec_timeout_s": 0},
        {"code_exec_timeout_s": float("nan")},
        {"code_exec_timeout_s": True},
        {"code_exec_max_output_chars": 0},
        {"code_exec_max_output_chars": 2.5},
        {"preload": "numpy"},
        {"preload": [3]},
    ],
)
def test_arguments_that_make_no_sense_are_refused(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Notebook(**kwargs)


def test_a_sandbox_that_fails_is_no_answer(env, monkeypatch):
    monkeypatch.setattr("gym_llm.sandbox.backends.INSIDE", Path("/no/such/folder"))
    with pytest.raises(SandboxError):
        run(env, "1")
    assert env.is_over and env.phase == "tool"


def test_the_tool_is_offered_where_a_row_names_none():
    assert [schema["name"] for schema in Notebook.tool_schemas()] == [NAME]
    assert PythonSessionEnv.tool_schemas() == []
    env = gym.make("gym_llm/NSTools-v0")
    assert env.reset(seed=0)[0]["tools"] == PythonTool.tool_schemas()


def test_a_text_that_fits_is_left_alone():
    assert shortened("a" * 5, 5) == "aaaaa"
