"""A command as a policy: what it is told, what it may do wrong, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from agent_playing import counts
from testing import ROOT, row, wait_for

import gym_llm
from gym_llm import RolloutSettings, collect
from gym_llm.agents import Program

FOLLOW_UP = "gym_llm/FollowUp-v0"
PYTHON = sys.executable


@pytest.fixture
def program(tmp_path: Path) -> Any:
    """Writes a Python program; the command that runs it."""

    def written(code: str) -> str:
        (tmp_path / "agent.py").write_text(code, "utf-8")
        return f"{PYTHON} -S {tmp_path}/agent.py"

    return written


def play(command: str, task: dict[str, Any] | None = None, **more: Any) -> Any:
    """One episode's record; what is expected as an answer is "9"."""

    async def collected() -> list[Any]:
        tasks = [task or row("4+5?", expected_answer="9")]
        records = gym_llm.rollout(FOLLOW_UP, "constant:nine", tasks=tasks, agent=command, **more)
        async with aclosing(records):
            return [record async for record in records]

    (record,) = asyncio.run(collected())
    return record


def text_of(record: Any) -> str:
    return "".join(part["text"] for item in record["response"]["output"] for part in item.get("content", ()))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


CALL = """
import json, os, sys, urllib.request
def ask(path, body):
    http = urllib.request.Request(os.environ["GYM_LLM_TOOLS_URL"] + path, json.dumps(body).encode(),
                                  {"Content-Type": "application/json"})
    with urllib.request.urlopen(http) as answer:
        return json.load(answer)
"""


def test_what_a_program_prints_is_its_answer(program: Any) -> None:
    code = "import sys; print(); print('  The question', sys.stdin.read(), 'has the answer 9. ')"
    record = play(program(code))
    assert text_of(record) == "The question 4+5? has the answer 9." and record["reward"] == 1.0
    assert counts(record) == (0, 0)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("print('9')", "9"), ("print('nine: 9'); print('9')", "nine: 9\n9"), ("", "nine")],
)
def test_a_banner_before_the_first_call_of_the_model_is_no_answer(program: Any, printed: str, expected: str) -> None:
    banner = "print('Thank you for using a library! ' * 9_000)"
    asks = (
        "import os, urllib.request as u; u.urlopen(u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', "
        """b'{"model": "m", "messages": [{"role": "user", "content": "?"}]}', """
        "{'Content-Type': 'application/json', 'Authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})).read()"
    )
    record = play(program("; ".join(filter(None, (banner, asks, printed)))))
    assert text_of(record) == expected and counts(record)[0] == 1


def test_a_program_is_told_its_task_and_where_to_ask(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-account's-key-1234")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-account-123456")
    told = {name: value for name, value in json.loads(text_of(play(program(TELLS)))).items()}
    environment, task = told["environment"], told["task"]
    assert task["request"]["input"] == [{"role": "user", "content": "4+5?"}] and task["prompt"] == "4+5?"
    assert environment["OPENAI_BASE_URL"].startswith("http://127.0.0.1:") and environment["OPENAI_MODEL"] == "constant"
    assert environment["OPENAI_BASE_URL"] == f"{environment['ANTHROPIC_BASE_URL']}/v1"
    assert environment["GYM_LLM_MCP_URL"].endswith("/mcp") and "ANTHROPIC_AUTH_TOKEN" not in environment
    assert "127.0.0.1" in environment["NO_PROXY"] and told["folder"] == os.getcwd()
    assert not Path(environment["GYM_LLM_FOLDER"]).exists()


TELLS = """
import json, os
names = [name for name in os.environ if name.startswith(("GYM_LLM", "OPENAI", "ANTHROPIC", "NO_PROXY"))]
print(json.dumps({"environment": {name: os.environ[name] for name in names}, "folder": os.getcwd(),
                  "task": json.load(open(os.environ["GYM_LLM_TASK"]))}))
"""


def test_keys_are_in_no_record_and_no_argument(program: Any) -> None:
    record = play(program(f"import os, sys; sys.exit({KEYS})"))
    assert record["failure_kind"] == "agent_run_error" and "***" in record["error"]
    assert "gl-" not in json.dumps(record)


KEYS = "' '.join([os.environ['OPENAI_API_KEY'], os.environ['GYM_LLM_MCP_URL'], open('/proc/self/cmdline').read()])"


def test_a_program_plays_a_conversation_over_plain_http(program: Any) -> None:
    code = (
        CALL + 'first = ask("/submit", {"answer": "2"}); print("noise")\nask("/submit", {"answer": first["message"]})'
    )
    task = row("1+1?", follow_ups=["Say 9."], expected_answer="9")
    record = play(program(code), task)
    assert record["reward"] == 1.0 and record["info"]["turn"] == 2


def test_a_program_that_has_ended_is_started_again_when_the_user_asks_on(program: Any) -> None:
    task = row("1+1?", follow_ups=["And 4+5?"], expected_answer="9")
    record = play(program("import sys; print(9 if 'User: And 4+5?' in sys.stdin.read() else 2)"), task)
    assert record["reward"] == 1.0 and record["info"]["turn"] == 2


@pytest.mark.slow
def test_a_loop_around_openais_client_plays_an_environment_with_tools() -> None:
    command = f"{PYTHON} {ROOT}/examples/agents/openai_loop.py"
    how: dict[str, Any] = {"limit": 3, "progress": False}
    plain = collect("gym_llm/Weather-v0", "pocket", **how)
    for one, other in zip(plain, collect("gym_llm/Weather-v0", "pocket", agent=command, **how), strict=True):
        assert one["reward"] == other["reward"]
        assert one["trajectory"][0]["input_ids"] == other["trajectory"][0]["input_ids"]  # type: ignore[index]
        assert one["trajectory"][0]["loss_mask"] == other["trajectory"][0]["loss_mask"]  # type: ignore[index]


# Faults ---------------------------------------------------------------------------------------------------------------


def test_a_program_that_fails_masks_its_episode_with_the_end_of_its_stderr(program: Any) -> None:
    record = play(program("print('9'); print('x' * 9999 + '\\nlast words', file=__import__('sys').stderr); 1 / 0"))
    assert (record["outcome"], record["failure_kind"]) == ("masked", "agent_run_error")
    assert "with exit code 1" in record["error"] and "ZeroDivisionError" in record["error"]
    assert "last words" in record["error"] and len(record["error"]) < 3_000
    killed = play(program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert "by signal 9" in killed["error"]


def test_a_program_that_is_not_there_masks_its_episode() -> None:
    for command in ("no_such_program_of_ours --now", "/no/such/program"):
        record = play(command)
        assert record["failure_kind"] == "agent_run_error" and "cannot be started" in record["error"]


def test_a_script_without_its_interpreter_is_told_how_to_be_given(tmp_path: Path) -> None:
    script = tmp_path / "my_agent.py"
    script.write_text("print(4)")
    record = play(str(script))
    assert record["failure_kind"] == "agent_run_error" and f"give 'python {script}'" in record["error"]


def test_a_programs_output_is_bounded(program: Any) -> None:
    record = play(program("import sys; sys.stdout.write('y' * (3 << 20)); sys.stderr.write('z' * (3 << 20))"))
    assert len(text_of(record)) == 1 << 20


LEAVES = """
import os, subprocess, sys, time
sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleeper)
daemon = subprocess.Popen(sleeper, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
with open(sys.argv[1], "w") as file:
    file.write(f"{child.pid} {daemon.pid} {os.getpid()}\\n")
"""


@pytest.mark.parametrize("how", ["ends", "takes too long", "ignores SIGTERM", "fails", "is cancelled"])
def test_nothing_of_a_program_is_left(how: str, program: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    after = {
        "ends": "print(9)",
        "takes too long": "time.sleep(600)",
        "ignores SIGTERM": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile 1: time.sleep(600)",
        "fails": "sys.exit(3)",
        "is cancelled": "time.sleep(600)",
    }[how]
    command = f"{program(LEAVES + after)} {pids}"
    if how == "is cancelled":

        async def main() -> None:
            rollouts = gym_llm.rollout(FOLLOW_UP, "constant:nine", tasks=[row("?", expected_answer="9")], agent=command)
            task = asyncio.ensure_future(anext(rollouts))
            while not (pids.exists() and pids.read_text().endswith("\n")):
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait({task})
            await rollouts.aclose()

        asyncio.run(main())
    else:
        start = time.monotonic()
        record = play(command, agent_timeout=1.5 if "T" in how or "long" in how else 60.0)
        expected = {"ends": None, "fails": "agent_run_error"}.get(how, "agent_timeout")
        assert record["failure_kind"] == expected and time.monotonic() - start < 15
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 3
    wait_for(lambda: not any(map(is_running, left)), seconds=2)


def test_programs_are_sent_to_other_processes_with_the_folder_of_this_one(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = RolloutSettings(agent="python my_agent.py --api-key sk-1234567890abcdef")
    assert settings.agent == Program(("python", "my_agent.py", "--api-key", "sk-1234567890abcdef"), str(tmp_path))
    assert settings.for_workers().agent == settings.agent
    assert RolloutSettings(agent="echo 9").agent_name == "echo 9"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv")
def test_a_program_ends_with_a_run_that_is_killed(program: Any, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = program(f"import os, time; open({str(pid)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(600)")
    code = f"import gym_llm; gym_llm.collect('gym_llm/Arithmetic-v0', 'constant:4', agent={command!r}, limit=1)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # its folder stays, as whoever would remove it is killed
    with subprocess.Popen([PYTHON, "-c", code], stderr=subprocess.DEVNULL, env=environment) as run:
        wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), seconds=60)
        run.kill()
    wait_for(lambda: not is_running(int(pid.read_text())))


@pytest.mark.slow
def test_programs_play_in_other_processes_too(program: Any) -> None:
    command = program("import sys; print(9 if sys.stdin.read() == '4+5?' else 3)")
    tasks = [row("4+5?", expected_answer="9")] * 4
    records = collect(FOLLOW_UP, "constant:nine", tasks=tasks, agent=command, workers=2, progress=False)
    assert [record["reward"] for record in records] == [1.0] * 4
