"""Folders of OpenEnv's hub in a sandbox machine: they play as outside, and what they try ends inside."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from their_packages import HUB, begin, guess, plain_folder, require_openenv

from gym_llm.envs.theirs import served_folder
from gym_llm.envs.theirs.peer_process import PeerFailed
from gym_llm.errors import DeadlinePassed, SandboxUnavailable
from gym_llm.sandbox.backends import bubblewrap_path

pytestmark = pytest.mark.slow
ENV = "gym_llm/OpenEnv-v0"
SECRET = "tok-19ce72b0"


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    try:
        bubblewrap_path()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder; its environment of Python is this one."""
    return plain_folder(tmp_path / "higher_env")


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the test."""
    with subprocess.Popen(command) as started:
        try:
            yield started
        finally:
            started.kill()


def played(folder: Path, machine: bool) -> list[Any]:
    """What twelve episodes show and pay, each by the same guesses."""
    found: list[Any] = []
    with closing(gym.make(ENV, folder=str(folder), machine=machine, field="message").unwrapped) as env:
        for seed in range(12):
            found.append(begin(env, seed)[-1]["content"])
            for number in range(10):
                found.append(guess(env, number))
                if found[-1][2]:
                    break
    return found


def test_episodes_in_a_machine_are_those_outside(folder: Path) -> None:
    inside = played(folder, True)
    assert inside == played(folder, False)
    assert len(inside) > 60 and inside.count(("yes", 1.0, True)) == 12


def test_openenvs_own_package_plays_in_a_machine() -> None:
    require_openenv()
    assert played(HUB, True) == played(HUB, False)


def test_a_hostile_server_reaches_nothing_outside(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", SECRET)  # a server outside gets it
    monkeypatch.setattr(served_folder, "_HUNG_SECONDS", 2.0)
    (folder / "openenv.yaml").write_text("app: server.hostile:main\n")
    (tmp_path / "kept").write_text(SECRET)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    with socket.create_server(("127.0.0.1", 0)) as outside, process("sleep", "600") as victim:
        outside.setblocking(False)
        variables = {"OUTSIDE": str(tmp_path), "OUTSIDE_PORT": str(outside.getsockname()[1]), "PID": str(victim.pid)}
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind("\0outside")
        abstract.listen()
        options = {"machine": True, "variables": variables, "step_seconds": 5.0}
        with abstract, closing(gym.make(ENV, folder=str(folder), **options).unwrapped) as env:
            for _ in range(2):  # the second is played on a new machine: the first has only its bomb
                done, names = json.loads(begin(env)[0]["content"])
                assert done == ["write to memory"] and "HF_HOME" not in names and "OUTSIDE" in names
                with pytest.raises((ConnectionError, DeadlinePassed)):
                    guess(env, 4)
        with pytest.raises(BlockingIOError):
            outside.accept()
        assert victim.poll() is None
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
    assert (tmp_path / "kept").read_text() == SECRET
    assert str(folder) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_a_server_that_ends_in_a_machine_is_one_sentence(folder: Path) -> None:
    variables = {"MODE": "exits", "API_KEY": SECRET}
    with closing(gym.make(ENV, folder=str(folder), machine=True, variables=variables).unwrapped) as env:
        with pytest.raises(PeerFailed, match=r"ended with 1 before .* it wrote last: No licence for \*") as caught:
            begin(env)
        assert SECRET not in str(caught.value) + str(caught.value.__notes__)


def test_a_server_that_hangs_in_a_machine_says_what_it_wrote(folder: Path) -> None:
    (folder / "server" / "plain.py").write_text("import time\nprint('Loading.')\ntime.sleep(3600)\n")
    env = gym.make(ENV, folder=str(folder), machine=True, start_seconds=3.0).unwrapped
    with closing(env), pytest.raises(PeerFailed, match=r"was not healthy .* within 3 s; it wrote last: Loading"):
        begin(env)


def test_a_machine_needs_a_folder() -> None:
    with pytest.raises(ValueError, match="machine"):
        gym.make(ENV, url="http://127.0.0.1:8000", machine=True)
