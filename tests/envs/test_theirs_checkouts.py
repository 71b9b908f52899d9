"""Environments that run from a checkout of NeMo Gym: equal to NeMo Gym's own servers, where a checkout is here."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import ROOT, function_call, message, often

from gym_llm.envs.theirs import environments

HERE = Path(__file__).parent
OWN = HERE / "theirs" / "checkout"
OPENAIR = "gym_llm/OpenAirCongestion-v0"
TOOLSANDBOX = "gym_llm/ToolSandbox-v0"


@pytest.fixture(scope="session")
def nemo_gym(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of NeMo Gym: that of GYM_LLM_NEMO_GYM, or one of the mirror beside the repository."""
    if named := os.environ.get("GYM_LLM_NEMO_GYM"):
        return Path(named)
    mirror = ROOT.parent / ".mirror" / "NVIDIA-NeMo+Gym" / "repo"
    if not mirror.is_dir():
        pytest.skip("no checkout of NeMo Gym: set GYM_LLM_NEMO_GYM to one")
    folder = tmp_path_factory.mktemp("nemo_gym")
    paths = ["resources_servers/openair_congestion", "resources_servers/toolsandbox"]
    command = ["git", "-C", str(mirror), "archive", "--output", str(folder / "all.tar"), "07d6b0d", *paths]
    subprocess.run(command, check=True)
    with tarfile.open(folder / "all.tar") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children run in this environment of Python: nothing is installed."""
    monkeypatch.setenv("GYM_LLM_THEIRS", str(tmp_path))
    monkeypatch.setattr(environments, "_make", lambda framework, home: home.symlink_to(sys.prefix))


def row(seed: int, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": []}, "seed": seed, **fields}


def calls(action: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made = [function_call(call["name"], call["arguments"], f"call_{place}") for place, call in enumerate(action)]
    return made or message("Hm.")


def test_openair_congestion_is_nemo_gyms(nemo_gym: Path, this_python: None) -> None:
    lines = (HERE / "vectors" / "openair_congestion.jsonl").read_text("utf-8").splitlines()
    env = gym.make(OPENAIR, source=str(nemo_gym))
    try:
        for episode in map(json.loads, lines):
            observation, _ = env.reset(options={"task": row(episode["seed"], **episode["kwargs"])})
            texts, rewards, over = [observation["input"][-1]["content"]], [], False
            for action in episode["actions"]:
                assert not over
                observation, reward, terminated, truncated, _ = env.step(calls(action))
                over = terminated or truncated
                rewards.append(reward)
                if action:
                    texts.append(observation["input"][-1]["content"])
            assert rewards == episode["rewards"] and over
            assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == episode["observations"]
    finally:
        env.close()


def test_a_turn_is_a_call_or_a_penalty(this_python: None) -> None:
    env = gym.make(OPENAIR, source=str(OWN), max_steps=7)
    observation, _ = env.reset(options={"task": row(3)})
    assert observation["input"][-1]["content"] == "load 3" and observation["tools"][0]["name"] == "set_cap"
    turns = [
        ([{"name": "set_cap", "arguments": {"cap": 5}}], -5.0, True),
        ([{"name": "set_cap", "arguments": {"cap": 99}}], -5.0, False),  # the simulator refuses
        ([{"name": "set_cap", "arguments": {"cap": "x"}}], -6.0, False),
        ([{"name": "noop", "arguments": {}}] * 2, -6.0, False),
        ([{"name": "lost", "arguments": {}}], -6.0, False),
        ([], -6.0, None),
    ]
    for action, expected, accepted in turns:
        observation, reward, terminated, truncated, _ = env.step(calls(action))
        assert reward == expected and not terminated and not truncated
        outputs = [item for item in observation["input"] if item.get("type") == "function_call_output"][-len(action) :]
        assert all(json.loads(each["output"])["accepted"] is accepted for each in outputs if action)
    *_, terminated, truncated, _ = env.step(calls([{"name": "noop", "arguments": {}}]))
    assert terminated
    env.close()


def test_fields_of_nemo_gyms_rows_are_arguments(this_python: None) -> None:
    env = gym.make(OPENAIR, source=str(OWN))
    env.reset(options={"task": row(3, max_steps=1, tier="replay", difficulty=0.5)})
    assert env.step(message("Hm."))[2]
    env.close()


@pytest.mark.parametrize("source", ["", "/nowhere"])
def test_a_source_that_is_no_checkout_is_said(source: str, this_python: None) -> None:
    env = gym.make(OPENAIR, source=source)
    with pytest.raises(Exception, match="checkout of NeMo Gym"):
        env.reset(options={"task": row(3)})
    env.close()


@pytest.mark.slow
def test_toolsandbox_is_nemo_gyms(nemo_gym: Path) -> None:
    """Policies and users of random scripts, which NeMo Gym's server has scored."""
    lines = (HERE / "vectors" / "toolsandbox.jsonl").read_text("utf-8").splitlines()
    for episode in map(json.loads, lines[: often(2, len(lines))]):  # each makes all scenarios, in half a minute
        user = {"engine": "replay:", "kwargs": {"answers": episode["says"]}}
        env = gym.make(TOOLSANDBOX, source=str(nemo_gym), user=user, step_seconds=300.0)
        env.reset(options={"task": row(0, task_idx=episode["task_idx"])})
        total, over = 0.0, False
        for action in episode["actions"]:
            assert not over
            said = calls(action["calls"]) if action["calls"] else message(action["text"])
            _, reward, terminated, truncated, info = env.step(said)
            over, total = terminated or truncated, total + reward
        assert over and total == pytest.approx(episode["reward"], abs=1e-12)
        assert {name: info[name] for name in episode["details"]} == episode["details"]
        env.close()


def test_toolsandbox_needs_a_user_and_a_checkout() -> None:
    with pytest.raises(ValueError, match="plays the user"):
        gym.make(TOOLSANDBOX, source=str(OWN))
    with pytest.raises(ValueError, match="checkout of NeMo Gym"):
        gym.make(TOOLSANDBOX, source=str(OWN), user="constant:Yes.")
