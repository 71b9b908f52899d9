"""TALES: rows of NeMo Gym's server `tales` are played as its server plays them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import message

from gym_llm.envs.theirs import environments
from gym_llm.rollouts.config.nemo_gym import env_of_server

TALES = "gym_llm/Tales-v0"
GAME = """
import gymnasium as gym

NAME = __name__.rpartition(".")[2]
IS_SUM = NAME in ("textworld", "alfworld", "jericho")
environments = [[f"{NAME}{number}", "v0"] for number in range(3)]
if NAME != "jericho":
    train_environments = [[f"{NAME}Train{number}", "v0"] for number in range(2)]


class Game(gym.Env):
    def __init__(self, task, admissible_commands=False, split="unsaid"):
        self.about = f"{task} {split} {admissible_commands}"

    def reset(self, *, seed=None, options=None):
        if self.about.startswith("textworldTrain1"):
            raise ConnectionError("games.zip cannot be downloaded")
        self.score = 0
        return f"{self.about} {seed}", {"admissible_commands": ["gain 1"], "extra.walkthrough": ["gain 1"]}

    def step(self, command):
        gain = int(command.removeprefix("gain ")) if command.startswith("gain ") else 0
        self.score += gain
        info = {"score": self.score, "max_score": 9, "admissible_commands": ["gain 1"]}
        return f"[{command}]", self.score if IS_SUM and not DELTAS else gain, command == "end", info


for name, version in environments + globals().get("train_environments", []):
    gym.register(f"tales/{name}-{version}", entry_point=Game, kwargs={"task": name})
"""
SYSTEM = {"role": "system", "content": "You are playing a text-based game."}


def suite(folder: Path, *, deltas: bool = False) -> str:
    """A tiny package `tales` with the interface of tale-suite's: `deltas` as its branch `main` pays TextWorld."""
    package = folder / "suite" / "tales"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name in ("textworld", "textworld_express", "alfworld", "scienceworld", "jericho"):
        (package / f"{name}.py").write_text(f"DELTAS = {deltas and name == 'textworld'}\n{GAME}")
    return str(package.parent)


@pytest.fixture
def this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children run in this environment of Python: nothing is installed. No game is real, nor its Java."""
    monkeypatch.setenv("GYM_LLM_THEIRS", str(tmp_path / "made"))
    monkeypatch.delenv("TALES_SOURCE", raising=False)
    monkeypatch.setattr(environments, "_make", lambda framework, home: home.symlink_to(sys.prefix))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")


def row(**fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [SYSTEM]}, "seed": 1234, **fields}


def play(env: Any, commands: list[str], **fields: Any) -> tuple[list[str], list[float], dict[str, Any]]:
    """Play a row; return what the model was shown, the rewards and the last `info`."""
    observation, info = env.reset(options={"task": row(**fields)})
    assert observation["input"][0]["content"] == SYSTEM["content"] and len(observation["input"]) == 2
    assert observation["input"][1]["role"] == "user" and not observation.get("tools")
    shown, rewards = [observation["input"][1]["content"]], []
    for command in commands:
        observation, reward, terminated, truncated, info = env.step(message(command))
        rewards.append(reward)
        shown.append(observation["input"][-1]["content"])
        if terminated or truncated:
            info = {**info, "ended": "terminated" if terminated else "truncated"}
            break
    return shown, rewards, info


@pytest.mark.parametrize("framework", ["textworld", "textworld_express", "alfworld", "scienceworld", "jericho"])
def test_a_command_is_paid_what_it_gains(framework: str, tmp_path: Path, this_python: None) -> None:
    env = gym.make(TALES, source=suite(tmp_path))
    shown, rewards, info = play(env, [" gain 3\n", "look", "gain 2", "end"], framework=framework)
    split = "train" if framework == "scienceworld" else "unsaid"
    name = "jericho0" if framework == "jericho" else f"{framework}Train0"
    assert shown[:3] == [f"{name} {split} True 1234", "[gain 3]", "[look]"]
    assert rewards == [3.0, 0.0, 2.0, 0.0] and info["ended"] == "terminated"
    assert (info["score"], info["total_score"], info["step_count"], info["max_score"]) == (5, 5.0, 4, 9)
    assert "admissible_commands" not in info and "extra.walkthrough" not in info
    env.close()


def test_nemo_gyms_server_pays_the_whole_score_of_jericho(tmp_path: Path, this_python: None) -> None:
    env = gym.make(TALES, source=suite(tmp_path), framework="jericho", conform="nemo")
    assert play(env, ["gain 3", "look", "gain 2", "end"])[1] == [3.0, 3.0, 5.0, 5.0]
    env.close()


def test_textworld_is_paid_once_where_tale_suite_pays_gains_itself(tmp_path: Path, this_python: None) -> None:
    env = gym.make(TALES, source=suite(tmp_path, deltas=True))
    assert play(env, ["gain 3", "look", "gain 2"])[1] == [3.0, 0.0, 2.0]
    env.close()


def test_fields_of_the_row_choose_the_game_and_its_limit(
    tmp_path: Path, this_python: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALES_SOURCE", suite(tmp_path))
    env = gym.make(TALES, framework="textworld_express", expose_admissible_commands=True)
    fields = {"framework": "scienceworld", "task_no": 2, "split": "test", "max_episode_steps": 2}
    shown, rewards, info = play(env, ["gain 1"] * 3, **fields)
    assert shown[0] == "scienceworld2 test True 1234" and rewards == [1.0, 1.0]
    assert info["ended"] == "truncated" and info["admissible_commands"] == ["gain 1"]
    assert len(play(env, ["look"] * 40)[1]) == 25
    env.close()


def test_a_story_neither_saves_nor_restores(tmp_path: Path, this_python: None) -> None:
    env = gym.make(TALES, source=suite(tmp_path), framework="jericho", max_episode_steps=3)
    shown, rewards, info = play(env, ["save", "x" * 2_000, "look\x00\nround"])
    assert "neither saves" in shown[1] and "neither saves" in shown[2]
    assert rewards == [0.0] * 3 and info["ended"] == "truncated"
    env.close()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"task_no": 1}, "games.zip cannot be downloaded"),
        ({"task_no": 2}, "tasks 0 to 1 in 'train'; got 2"),
        ({"task_no": "0"}, "tasks 0 to 1"),
        ({"framework": "zork"}, "framework is one of textworld, "),
        ({"max_episode_steps": 0}, "1 or more"),
    ],
)
def test_what_tale_suite_or_a_row_got_wrong_is_masked(
    fields: dict[str, Any], said: str, tmp_path: Path, this_python: None
) -> None:
    env = gym.make(TALES, source=suite(tmp_path)).unwrapped
    with pytest.raises(Exception, match=said):
        env.reset(options={"task": row(**fields)})
    assert play(env, ["gain 1"])[1] == [1.0]
    env.close()


def test_a_folder_that_is_not_a_checkout_raises_at_once(tmp_path: Path, this_python: None) -> None:
    with pytest.raises(ValueError, match="TALES_SOURCE"):
        gym.make(TALES)
    with pytest.raises(ValueError, match="not a checkout of tale-suite"):
        gym.make(TALES, source=str(tmp_path))


def test_nemo_gyms_name_is_known() -> None:
    assert env_of_server("tales") == TALES
