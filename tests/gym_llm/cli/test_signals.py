"""Runs that are ended by a signal, as users and machines end them: each a process of its own."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import testing
from model_server import ModelServer
from testing import has_lines, often, row
from testing import rollout_ids as pairs

pytestmark = [pytest.mark.slow, pytest.mark.timing]

COMMAND = [sys.executable, "-m", "gym_llm.cli", "rollout"]
ENV = "gym_llm/FollowUp-v0"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
KILLS = int(os.environ.get("GYM_LLM_KILLS", often(3, 20)))
"""`GYM_LLM_KILLS=1000 pytest tests/gym_llm/cli/test_signals.py -k kills` takes a quarter of an hour."""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def in_a_terminal() -> None:
    """What signals do to a command that somebody types, whoever runs the tests (`nohup`, a shell's background)."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def start(*argv: object, before: Callable[[], None] = in_a_terminal, **options: Any) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *map(str, argv)], preexec_fn=before, **pipes, **options)


def write_tasks(count: int, path: str = "tasks.jsonl") -> str:
    rows = (row(f"Question {number}", expected_answer="yes") for number in range(count))
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in rows))
    return path


def resumable_code(number: int) -> int:
    """The exit code after a first signal; 75 asks a batch script to start the command again."""
    return 75 if number == signal.SIGTERM else 128 + number


wait_for = partial(testing.wait_for, seconds=60.0)


def resume(server: ModelServer, err: str) -> None:
    """Run the command that a run has named for going on with it; quickly, and without Ray."""
    line, _, _ = err.partition("Resume with: gym-llm rollout ")[2].partition("\n")  # two signals may say two
    command = shlex.split(line)
    assert command[-1] == "--resume", err
    command += ["--workers", "0", "--concurrency", "32"]
    server.latency = 0.0
    ended = subprocess.run([*COMMAND, *command], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_keeps_what_is_finished_and_says_how_to_go_on(server, number):
    server.latency = 0.02
    tasks = write_tasks(150, "my tasks.jsonl")
    process = start(ENV, "--engine", server.url, "--tasks", tasks, "--concurrency", 4)
    wait_for(lambda: len(server.bodies) > 20)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == resumable_code(number)
    (path,) = Path("rollouts").glob("*.jsonl")
    done = len(pairs(path))
    assert 10 < done < 150
    assert "mean reward" in out
    assert f"Interrupted: {done} episodes are finished. Resume with: gym-llm rollout" in err
    assert "Traceback" not in out + err
    summary = json.loads(path.with_suffix(".summary.json").read_text())
    assert (summary["episodes"], summary["complete"]) == (done, False)
    resume(server, err)
    assert pairs(path) == [(task, 0) for task in range(150)]


SLEEPY = """
import os
import time
import gymnasium
from gym_llm.envs.follow_up.env import FollowUp

def sleep(where):
    if os.environ["ASLEEP"] == where:
        print("asleep", flush=True)
        time.sleep(60)

class Sleepy(FollowUp):
    def __init__(self, *args, **kwargs):
        sleep("in the constructor")
        super().__init__(*args, **kwargs)

    def verify(self, task, episode):
        sleep("in verify")
        return 1.0

gymnasium.register("sleepy/Sleepy-v0", entry_point="sleepy:Sleepy")
"""


def start_sleepy(server: ModelServer, where: str, *argv: object) -> subprocess.Popen[str]:
    Path("sleepy.py").write_text(SLEEPY)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ["PYTHONPATH"]])}
    command = ["sleepy:sleepy/Sleepy-v0", "--engine", server.url, "--tasks", write_tasks(3), *argv]
    process = start(*command, env={**environment, "ASLEEP": where})
    assert process.stdout is not None
    assert process.stdout.readline() == "asleep\n", process.communicate()
    return process


@pytest.mark.parametrize("number", SIGNALS)
def test_the_second_signal_ends_at_once_whatever_is_going_on(server, number):
    process = start_sleepy(server, "in verify")
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 128 + number
    assert "Resume with: gym-llm rollout sleepy:sleepy/Sleepy-v0" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "again"), [([], "Begin again"), (["--output", "a.jsonl"], "Resume with: gym-llm rollout")]
)
def test_before_the_first_episode_a_signal_ends_it_at_once(server, argv, again):
    process = start_sleepy(server, "in the constructor", *argv)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 75
    assert err.startswith(f"Interrupted: nothing was played. {again}") and err.count("\n") == 1
    assert not list(Path().glob("**/*.summary.json"))


def test_a_run_under_nohup_does_not_hear_that_its_terminal_is_gone(server):
    server.latency = 0.02
    argv = [ENV, "--engine", server.url, "--tasks", write_tasks(30), "--concurrency", 2, "--output", "a.jsonl"]

    def before() -> None:
        in_a_terminal()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start(*argv, before=before)
    wait_for(has_lines("a.jsonl", 1))
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert pairs("a.jsonl") == [(task, 0) for task in range(30)]


def test_a_run_whose_terminal_is_closed_ends_in_order(server):
    server.latency = 0.02
    argv = [ENV, "--engine", server.url, "--tasks", write_tasks(200), "--concurrency", "2", "--output", "a.jsonl"]
    child, terminal = pty.fork()
    if child == 0:
        in_a_terminal()
        os.execve(sys.executable, [*COMMAND, *argv], {**os.environ, "TERM": "xterm-256color"})
    try:
        wait_for(lambda: bool(select.select([terminal], [], [], 0)[0] and os.read(terminal, 65536)) and ready())
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129
    summary = json.loads(Path("a.summary.json").read_text())
    assert 0 < len(pairs("a.jsonl")) == summary["episodes"] < 200


def ready() -> bool:
    return has_lines("a.jsonl", 5)()


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 2)],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.xdist_group("ray")
def test_a_run_over_ray_ends_like_any_other(server, number, times):
    pytest.importorskip("ray")
    server.latency = 0.05
    argv = [ENV, "--engine", server.url, "--tasks", write_tasks(400), "--concurrency", 4, "--output", "a.jsonl"]
    process = start(*argv, "--workers", 2)
    wait_for(has_lines("a.jsonl", 5))
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    assert process.returncode == resumable_code(number)
    assert "Traceback" not in out + err
    done = len(pairs("a.jsonl"))
    assert 5 <= done < 400
    resume(server, err)
    assert pairs("a.jsonl") == [(task, 0) for task in range(400)]


RUN_FORKS = """
import json, os, sys
import gym_llm.rollouts.run, gym_llm.engines.http, gym_llm.envs.follow_up
from gym_llm.cli import main
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os._exit(main(json.loads(line)))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_kills_lose_nothing_and_repeat_nothing(server):
    episodes = 60 * KILLS
    server.latency = 0.1  # a run lasts a second or more, however late this process is with its kill
    # Long lines are more likely to be torn; but each run reads what there is.
    server.answer = lambda body: "yes" + " and more" * max(10, 40_000 // KILLS)
    tasks = write_tasks(episodes // 2)
    command = ["rollout", ENV, "--engine", server.url, "--tasks", tasks, "--repeats", "2", "--concurrency", "16"]
    command += ["--output", "a.jsonl", "--resume", "--quiet"]
    chance = random.Random(0)
    before = 0
    # Each run is a process of its own, forked from one that has done the imports: twenty of them in a few seconds.
    forks = subprocess.Popen(
        [sys.executable, "-c", RUN_FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=in_a_terminal,
    )
    assert forks.stdin is not None
    assert forks.stdout is not None
    for kill in range(KILLS):
        forks.stdin.write(json.dumps(command) + "\n")
        forks.stdin.flush()
        child = int(forks.stdout.readline())
        number = signal.SIGKILL if kill % 3 else chance.choice(SIGNALS)
        if number != signal.SIGKILL or chance.random() < 0.8:  # in the middle of the run
            wait_for(has_lines("a.jsonl", before + 1))
            time.sleep(chance.uniform(0.0, 0.02))
        else:  # at any moment, starting up included
            time.sleep(chance.uniform(0.0, 0.1))
        os.kill(child, number)
        code = int(forks.stdout.readline())
        assert code == (-number if number == signal.SIGKILL else resumable_code(number))
        before = Path("a.jsonl").read_bytes().count(b"\n") if Path("a.jsonl").exists() else 0
    forks.communicate()
    assert 0 < before < episodes
    ended = subprocess.run([*COMMAND, *command[1:]], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert pairs("a.jsonl") == [(task, repeat) for task in range(episodes // 2) for repeat in range(2)]
    summary = json.loads(Path("a.summary.json").read_text())
    assert (summary["episodes"], summary["mean_reward"], summary["complete"]) == (episodes, 1.0, True)
