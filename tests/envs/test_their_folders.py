"""Folders of OpenEnv's hub as environments: their servers are started, shared, ended, and may be hostile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call
from their_packages import HUB, begin, guess, plain_folder, require_openenv

from gym_llm import Run
from gym_llm.envs.theirs import environments
from gym_llm.envs.theirs.peer_process import PeerFailed

ENV = "gym_llm/OpenEnv-v0"
SECRET = "tok-77aa1c02"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The folder with the server that needs OpenEnv's package nowhere; its environment of Python is this one."""
    return plain_folder(tmp_path / "higher_env")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def test_a_folder_is_played_with_openenvs_own_package() -> None:
    require_openenv()
    env = gym.make(ENV, folder=str(HUB), field="message", variables={"LIMIT": "3"}).unwrapped
    assert begin(env, 4)[-1]["content"] == "Begin"
    assert guess(env, 0) == ("higher", 0.25, False)
    assert guess(env, 2) == ("lower", 0.25, False)
    observation, reward, terminated, *_ = env.step([function_call("act", {"guess": "two"})])
    assert "Invalid action" in observation["input"][-1]["output"] and (reward, terminated) == (0, False)
    assert guess(env, 1)[1:] == (1.0, True)
    env.close()


def test_environments_share_a_server_that_ends_with_the_last(plain: Path) -> None:
    first, second = (gym.make(ENV, folder=str(plain)).unwrapped for _ in range(2))
    pid = int(begin(first)[0]["content"])
    assert int(begin(second)[0]["content"]) == pid and is_alive(pid)
    assert guess(first, 3) == ('{"message": "higher"}', 0.25, False)
    first.close()
    assert guess(second, 4)[1:] == (1.0, True)
    second.close()
    assert not is_alive(pid)


def test_a_row_may_name_other_variables_and_an_address_is_no_folder(plain: Path) -> None:
    with closing(gym.make(ENV, url=str(plain)).unwrapped) as env:
        for limit, said in ((3, "yes"), (10, "higher")):
            row = {
                "responses_create_params": {"input": []},
                "seed": 4,
                "arguments": {"variables": {"LIMIT": f"{limit}"}},
            }
            env.reset(options={"task": row})
            assert said in guess(env, 1)[0]
        row: Any = {"responses_create_params": {"input": []}, "arguments": {"url": "http://127.0.0.1:1"}}
        with pytest.raises(ConnectionError, match="cannot be asked"):
            env.reset(options={"task": row})
        row["arguments"]["folder"] = str(plain)
        with pytest.raises(ValueError, match="both"):
            env.reset(options={"task": row})


def test_a_server_that_dies_masks_its_episode_and_is_started_again(plain: Path) -> None:
    with closing(gym.make(ENV, folder=str(plain), variables={"MODE": "dies"}).unwrapped) as env:
        pids = set()
        for _ in range(2):
            pids.add(begin(env)[0]["content"])
            with pytest.raises(ConnectionError, match="closed the connection"):
                guess(env, 3)
        assert len(pids) == 2


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("exits", r"ended with 1 before it was healthy; it wrote last: No licence for \*\*\*\."),
        ("hangs", "was not healthy .* within 2 s; it wrote nothing"),
        ("elsewhere", "was not healthy"),
        ("starts", "was not healthy"),
        ("silent", "was not healthy"),
        ("floods", "was not healthy"),
    ],
)
def test_a_server_that_is_never_healthy_is_one_sentence(plain: Path, mode: str, why: str) -> None:
    variables = {"MODE": mode, "API_KEY": SECRET}
    with closing(gym.make(ENV, folder=str(plain), variables=variables, start_seconds=2.0).unwrapped) as env:
        if mode == "exits":  # how long Python takes to start must not matter
            env.close()
            env = gym.make(ENV, folder=str(plain), variables=variables).unwrapped
        start = time.monotonic()
        with pytest.raises(PeerFailed, match=why) as caught:
            begin(env)
        took = time.monotonic() - start
        assert "\n" not in str(caught.value) and SECRET not in str(caught.value) + str(caught.value.__notes__)
        assert took < 60
        with pytest.raises(PeerFailed, match=why):  # at once
            begin(env)
        assert time.monotonic() - start < took + 1


def test_a_server_that_writes_much_is_played(plain: Path) -> None:
    with closing(gym.make(ENV, folder=str(plain), variables={"MODE": "writes"}).unwrapped) as env:
        begin(env)
        assert guess(env, 4)[1:] == (1.0, True)


def test_a_server_and_its_children_end_with_a_parent_that_is_killed(plain: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, gymnasium as gym, gym_llm
env = gym.make({ENV!r}, folder={str(plain)!r}, variables={{"MODE": "parent", "PIDS": {str(pids)!r}}}).unwrapped
print(env.reset(seed=0)[0]["input"][0]["content"], flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    for pid in (int(done.stdout), int(pids.read_text())):
        wait_until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]


def test_packages_are_installed_apart_once(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain / ".venv").unlink()
    made = []

    def make(framework: Any, home: Path) -> None:
        made.append(framework.packages)
        home.symlink_to(sys.prefix)

    monkeypatch.setenv("GYM_LLM_THEIRS", str(tmp_path / "theirs"))
    monkeypatch.setattr(environments, "_make", make)
    for packages in (["one"], ["one"], ["two>=1"]):
        (plain / "pyproject.toml").write_text(f"[project]\ndependencies = {json.dumps(packages)}\n")
        with closing(gym.make(ENV, folder=str(plain)).unwrapped) as env:
            begin(env)
    assert made == [("one",), ("two>=1",)]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("openenv.yaml", None, "has no openenv.yaml"),
        ("pyproject.toml", None, "has no pyproject.toml"),
        ("openenv.yaml", "a: [", "not YAML"),
        ("openenv.yaml", "app: os.system", "not a name"),
        ("openenv.yaml", "app: [1]", "not a name"),
        ("pyproject.toml", "[", "not TOML"),
        ("pyproject.toml", "[project]\ndependencies = ['--index-url=http://x']", "not a list of packages"),
    ],
)
def test_what_is_no_hub_folder_is_refused_at_once(plain: Path, file: str, text: str | None, why: str) -> None:
    (plain / file).unlink() if text is None else (plain / file).write_text(text)
    with pytest.raises(ValueError, match=why):
        gym.make(ENV, folder=str(plain))


def test_contradictory_arguments_are_refused(plain: Path) -> None:
    with pytest.raises(ValueError, match="both"):
        gym.make(ENV, url="http://127.0.0.1:8000", folder=str(plain))
    with pytest.raises(ValueError, match="start_seconds"):
        gym.make(ENV, folder=str(plain), start_seconds=0.0)
    with pytest.raises(ValueError, match="no folder"):
        gym.make(ENV, url="no/such/folder")


def test_a_path_after_openenv_is_played_by_the_command_line(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plain.parent)
    with Run("openenv:./higher_env", "constant:1", episodes=6, output=tmp_path / "played.jsonl") as run:
        run.play()
    records = [json.loads(line) for line in (tmp_path / "played.jsonl").read_text().splitlines()]
    assert len(records) == 6 and not any(record.get("error") for record in records)
    assert len({record["response"]["output"][0]["content"] for record in records}) == 1  # one server
