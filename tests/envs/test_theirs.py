"""Environments of other frameworks: equal to the framework itself, and a hostile one harms only its own episode."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from testing import message, response

from gym_llm import Run
from gym_llm.cli import main
from gym_llm.core.registry.env_files import env_spec
from gym_llm.core.registry.ids import env_ids, their_names, unknown_env
from gym_llm.envs.theirs import environments
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.room import PEERS, Play, load
from gym_llm.errors import UsageError

HOSTILE = Path(__file__).parent / "theirs"
GYMNASIUM = "gym_llm/Gymnasium-v0"


def row(seed: int, **arguments: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": []}, "seed": seed, "arguments": arguments}


def own_episode(env_id: str, seed: int) -> dict[str, Any]:
    """An episode of random actions, recorded from Gymnasium itself."""
    env = gym.make(env_id)
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    episode: dict[str, Any] = {"framework": "gymnasium", "version": gym.__version__, "env": env_id, "kwargs": {}}
    episode |= {"seed": seed, "actions": [], "observations": [observation], "rewards": [], "done": False}
    while not episode["done"] and len(episode["actions"]) < 40:
        action = env.action_space.sample()
        observation, reward, terminated, truncated, _ = env.step(action)
        episode["actions"].append(action)
        episode["observations"].append(observation)
        episode["rewards"].append(float(reward))
        episode["done"] = bool(terminated or truncated)
    env.close()
    return json.loads(json.dumps(episode, default=lambda value: value.tolist()))


@pytest.fixture
def this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children run in this environment of Python: nothing is installed."""
    monkeypatch.setenv("GYM_LLM_THEIRS", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(HOSTILE))
    monkeypatch.setattr(environments, "_make", lambda framework, home: home.symlink_to(sys.prefix))
    monkeypatch.syspath_prepend(HOSTILE)


@pytest.mark.parametrize("where", ["here", "process"])
@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CartPole-v1", "Taxi-v4", "Pendulum-v1", "Blackjack-v1"])
def test_rewards_are_gymnasiums_own(env_id: str, where: str, this_python: None) -> None:
    """Two episodes take turns, so that nothing may be shared."""
    episodes = [own_episode(env_id, seed) for seed in range(2)]
    envs = [gym.make(GYMNASIUM, env=env_id, where=where, max_turns=1_000).unwrapped for _ in episodes]
    for env, episode in zip(envs, episodes, strict=True):
        env.reset(options={"task": row(episode["seed"])})
    for turn in range(40):
        for env, episode in zip(envs, episodes, strict=True):
            if turn < len(episode["actions"]):
                _, reward, terminated, truncated, _ = env.step(message(json.dumps(episode["actions"][turn])))
                assert reward == episode["rewards"][turn]
                over = turn == len(episode["actions"]) - 1 and episode["done"]
                assert (terminated or truncated) == over
    for env in envs:
        env.close()


def test_replay_finds_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    episodes = [own_episode("CartPole-v1", seed) for seed in range(4)]
    episodes[1]["rewards"][-1] += 0.5
    episodes[2]["observations"][1][0] += 0.1
    episodes[3]["version"] = "0.0.1"
    file = tmp_path / "recorded.jsonl"
    file.write_text("".join(f"{json.dumps(episode)}\n" for episode in episodes))
    assert main(["env", "replay", str(file)]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["agreed"], found["tried"]) == (1, 3)
    assert list(found["skipped"]) == [f"gymnasium {gym.__version__} is installed, and 0.0.1 was recorded"]
    assert "Line 2: CartPole-v1: rewards" in err and "Line 3: CartPole-v1: observations" in err


def test_an_action_that_does_not_exist_is_asked_again() -> None:
    env = gym.make(GYMNASIUM, env="FrozenLake-v1", env_kwargs={"is_slippery": False}).unwrapped
    env.reset(options={"task": row(0)})
    for wrong in ("sideways", "17", "", "[1]", "true", "1" * 5_000, "{" * 5_000):
        observation, reward, terminated, *_ = env.step(message(wrong))
        assert (reward, terminated) == (0.0, False)
        assert "Answer with one action: left, down, right, up." in observation["input"][-1]["content"]
    rewards = [env.step(message(move))[1] for move in ("down", "1.", "Right!", "<action>2</action>", "DOWN", "right")]
    assert rewards == [0.0] * 5 + [1.0]
    env.close()


@pytest.mark.slow
def test_a_hostile_environment_masks_its_own_episode_only(tmp_path: Path, this_python: None) -> None:
    hostile = ["Raises", "Exits", "Dies", "DiesBeforeItsChild", "Hangs", "NotANumber", "TooLong", "NoTurn"]
    rows = [row(seed, env="hostile_envs:Good-v0") for seed in range(24)]
    for place, name in enumerate(hostile):
        rows.insert(4 * place, row(100, env=f"hostile_envs:{name}-v0"))
    with Run(
        GYMNASIUM,
        "constant:0",
        tasks=rows,
        env_kwargs={"where": "process", "step_seconds": 3.0},
        concurrency=len(rows),
        retries=0,
        output=tmp_path / "played.jsonl",
        max_failures=None,
    ) as run:
        run.play()
    records = [json.loads(line) for line in (tmp_path / "played.jsonl").read_text().splitlines()]
    names = [record["arguments"]["env"].partition(":")[2].removesuffix("-v0") for record in records]
    said = {name: record["error"] for name, record in zip(names, records, strict=True) if record["reward"] is None}
    assert sorted(said) == sorted(hostile)
    assert [record["reward"] for record in records if record["reward"] is not None] == [3.0] * 24
    assert "RuntimeError: I raise." in said["Raises"] and "SystemExit" in said["Exits"]
    assert "ended with 3" in said["Dies"] and "longer than 3 s" in said["Hangs"]
    assert "longer than 3 s" in said["DiesBeforeItsChild"]
    assert "not a finite number" in said["NotANumber"] and re.search(r"16,777,216|longer", said["TooLong"])


def test_global_generators_stay_each_episodes_own(this_python: None) -> None:
    class Draws:
        draws, recording = "always", False

        def reset(self, seed: int) -> dict[str, Any]:
            random.seed(seed)
            np.random.seed(seed)
            return self.step({})

        def step(self, action: dict[str, Any]) -> dict[str, Any]:
            return {"say": f"{random.random()} {np.random.random()}"}

    def plays() -> list[Play]:
        made = [Play(Draws()) for _ in range(2)]
        for seed, play in enumerate(made):
            play.reset(seed)
        return made

    alone = [[play.step({})["say"] for _ in range(5)] for play in plays()]
    together: list[list[str]] = [[], []]
    both = plays()
    random.seed(99)
    before = random.getstate()
    for _ in range(5):
        for play, seen in zip(both, together, strict=True):
            seen.append(play.step({})["say"])
    assert together == alone and alone[0] != alone[1]
    assert random.getstate() == before


def test_names_and_missing_packages() -> None:
    spec = env_spec("gymnasium:CartPole-v1")
    assert (spec.id, spec.kwargs["env"]) == (GYMNASIUM, "CartPole-v1")
    assert their_names()["open_spiel"] == "gym_llm/OpenSpiel-v0"
    assert not set(their_names().values()) & set(env_ids())
    assert set(their_names()) <= set(frameworks())
    missing = next(each for each in frameworks().values() if each.env_id and not each.is_installed)
    with pytest.raises(DependencyNotInstalled, match=f"{missing.env_id} needs {missing.module}: pip install"):
        gym.make(missing.env_id, where="here")
    with pytest.raises(UsageError, match="no module 'textarenas'"):
        env_spec("textarenas:TicTacToe-v0")
    with pytest.raises(UsageError, match=r"Did you mean textarena:TicTacToe-v0\?"):
        env_spec("textarnea:TicTacToe-v0")
    with pytest.raises(UsageError, match="is a framework: give textarena:NAME"):
        env_spec("textarena:")
    assert "give open_spiel:NAME" in str(unknown_env("open-spiel"))
    for arguments in ({"seat": 0}, {"opponents": "random"}, {"opponents": {"1": "random"}}):
        with pytest.raises(ValueError, match="give `opponents` an engine"):
            gym.make("gym_llm/TextArena-v0", where="process", **arguments)
    with pytest.raises(ValueError, match="opponents names no engine"):
        gym.make("gym_llm/OpenSpiel-v0", opponents={"1": "http//host"}, where="process")
    with pytest.raises(TypeError, match="opponents"):
        gym.make(GYMNASIUM, opponents="random")
    with pytest.raises(TypeError, match="no argument 'gmae'"):
        gym.make("gym_llm/TextArena-v0", gmae="TicTacToe-v0")


def test_an_environment_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_LLM_THEIRS", str(tmp_path))
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):  # an index that is slow to say no would take minutes
        monkeypatch.setenv(name, "1")
    nothing = replace(frameworks()["open_spiel"], packages=("gym-llm-no-such-package==0.0.0",))
    monkeypatch.setitem(frameworks(), "open_spiel", nothing)
    monkeypatch.setattr(type(gym.make("gym_llm/OpenSpiel-v0").unwrapped), "framework", nothing)
    env = gym.make("gym_llm/OpenSpiel-v0", where="process").unwrapped
    with pytest.raises(environments.SandboxUnavailable, match=r"gym-llm-no-such-package.* cannot be installed: "):
        env.reset(seed=0)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_a_turn_that_is_cut_off_is_not_played() -> None:
    env = gym.make(GYMNASIUM, env="FrozenLake-v1").unwrapped
    for fields in ({"status": "incomplete"}, {"incomplete_details": {"reason": "max_output_tokens"}, "status": None}):
        env.reset(options={"task": row(0)})
        observation, reward, terminated, truncated, _ = env.step(response(*message("down"), **fields))
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert observation["input"][-1]["role"] == "assistant"
    env.reset(options={"task": row(0)})
    assert env.step(response(*message("down"), status=None))[2:4] == (False, False)
    env.close()


@pytest.mark.parametrize("arguments", [{}, {"seat": 1}, {"seat": "2"}, {"opponents": {"0": "random"}}])
def test_a_game_of_theirs_has_a_seat_for_each_player(arguments: dict[str, Any]) -> None:
    env = gym.make("gym_llm/OpenSpiel-v0", game="kuhn_poker(players=3)", disable_env_checker=True, **arguments)
    played, mine = set(), {"seat": {str(arguments.get("seat"))}, "opponents": {"1", "2"}}
    game: Any = env.unwrapped
    for seed in range(3):
        try:
            _, info = env.reset(seed=seed)
        except environments.SandboxUnavailable as error:
            pytest.skip(str(error))
        over = False
        while not over:
            played.add(info["seat"])
            legal = game.legal_moves(None, game.episode.state, info["seat"])
            *_, terminated, truncated, info = env.step(message(legal[seed % 2]))
            over = terminated or truncated
        assert sum(info["rewards"].values()) == 0.0 and len(info["rewards"]) == 3 and terminated
    assert played == mine.get(next(iter(arguments), ""), {"0", "1", "2"})
    env.close()


def test_an_illegal_move_in_a_game_of_theirs_is_counted() -> None:
    env = gym.make("gym_llm/OpenSpiel-v0", game="kuhn_poker", disable_env_checker=True)
    try:
        env.reset(seed=0)
    except environments.SandboxUnavailable as error:
        pytest.skip(str(error))
    for move in ("I do not know.", "Pass", "Bet", "Fold", "Pass"):
        *_, terminated, _, info = env.step(message(move))
    assert terminated and info["illegal_moves"] == {"0": 2, "1": 0} and sum(info["rewards"].values()) == 0.0
    env.close()


def test_seats_that_a_game_does_not_have_are_refused_when_it_begins() -> None:
    for arguments in ({"seat": 2}, {"opponents": {"2": "random"}}, {"seat": "x"}):
        env = gym.make("gym_llm/OpenSpiel-v0", game="kuhn_poker", disable_env_checker=True, **arguments)
        try:
            with pytest.raises(ValueError, match=r"There is no seat .*; the seats are 0, 1\."):
                env.reset(seed=0)
        except environments.SandboxUnavailable as error:
            pytest.skip(str(error))
        env.close()


class Paid:
    """A peer that pays for `reset`, and is scored where a limit ends it."""

    recording = False

    def __init__(self, **_: Any) -> None:
        self.turns = 0

    def reset(self, seed: int | None) -> dict[str, Any]:
        return {"say": "Go.", "reward": 0.25}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        if action.get("over"):
            return {"reward": 10.0, "terminated": True, "info": {"said": action["text"]}}
        self.turns += 1
        return {"say": "On.", "reward": 1.0, "terminated": action["text"] == "end"}


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gymnasium's environment with that peer instead."""
    cls = type(gym.make(GYMNASIUM).unwrapped)  # its arguments are the own peer's
    monkeypatch.setattr(load("gymnasium"), "Peer", Paid)
    monkeypatch.setattr(cls, "framework", replace(frameworks()["gymnasium"], scores_at_limit=True))
    return lambda **arguments: gym.make(GYMNASIUM, where="here", **arguments).unwrapped


def test_the_reward_of_reset_is_paid_with_the_first_turn(paid: Any) -> None:
    env = paid()
    env.reset(seed=0)
    assert [env.step(message(text))[1] for text in ("on", "on", "end")] == [1.25, 1.0, 1.0]
    env.reset(seed=0)
    assert env.step(message("end"))[1:3] == (1.25, True)


def test_an_episode_that_a_limit_ends_is_scored_where_the_framework_does(paid: Any) -> None:
    env = paid(max_turns=2)
    env.reset(seed=0)
    assert env.step(message("on"))[1] == 1.25
    assert env.step(message("on"))[1:4] == (11.0, False, True)
    env.reset(seed=0)
    _, reward, _, truncated, info = env.step(response(*message("half"), status="incomplete"))
    assert (reward, truncated, info["said"]) == (10.25, True, "half")


def test_theirs_are_listed_in_lines_or_in_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["list", "--theirs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.count("\t") for line in lines} == {3} and len(lines) == 1 + len(their_names())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["list", "--theirs"]) == 0
    table = capsys.readouterr().out
    assert "\t" not in table and "textarena:NAME" in table and f"{len(their_names())} frameworks" in table


def test_what_a_child_imports_needs_no_gym_llm() -> None:
    """Their Pythons have none, and `room.load` imports these files there."""
    folder = PEERS.parent
    for path in (
        *PEERS.glob("*.py"),
        *(folder / f"{name}.py" for name in ("bridge", "child", "room", "views", "wires")),
    ):
        names = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            for name in (
                [each.name for each in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert "gym_llm" not in names, path.name


@pytest.mark.parametrize(
    ("game", "wanted"),
    [
        ("tictactoe_v3", ("pygame",)),
        ("pettingzoo.classic.chess_v6:env", ("pygame", "chess")),
        ("hanabi_v5", ("pygame", "shimmy", "pyspiel")),
        ("pettingzoo.butterfly.cooperative_pong_v6:env", ()),
        ("my_game:make", ()),
    ],
)
def test_a_game_of_pettingzoo_is_here_only_with_what_it_imports(game: str, wanted: tuple[str, ...]) -> None:
    framework = frameworks()["pettingzoo"]
    assert load("pettingzoo").needs({"game": game}) == wanted
    has_all = all(importlib.util.find_spec(module) for module in ("pettingzoo", *wanted))
    assert framework.plays_here({"game": game}) == has_all
    assert framework.is_installed == all(importlib.util.find_spec(module) for module in ("pettingzoo", "pygame"))


def test_a_replay_prints_its_figures_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    def hostile(episode: Any) -> Any:
        print(".", end="")
        os.write(1, b"from C")
        raise NotImplementedError("not repeatable")

    monkeypatch.setattr(load("gymnasium"), "recorded", hostile)
    version = frameworks()["gymnasium"].packages[0].partition("==")[2]
    monkeypatch.setattr("gym_llm.envs.theirs.replay._check_version", lambda *_: None)
    path = tmp_path / "episodes.jsonl"
    path.write_text(json.dumps({"framework": "gymnasium", "version": version, "env": "FrozenLake-v1"}) + "\n")
    main(["env", "replay", str(path)])
    assert json.loads(capfd.readouterr().out) == {"agreed": 0, "tried": 0, "skipped": {"not repeatable": 1}}
