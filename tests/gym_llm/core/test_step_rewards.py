"""Rewards of turns: from the hooks to steps, records, trajectories, and to what scores again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit, TransformReward
from played import play
from testing import function_call, message, message_item, response, row

import gym_llm
from gym_llm import Verdict, VerifierEnv, tool
from gym_llm.cli import main
from gym_llm.core.driver import Driver
from gym_llm.engines import Engine
from gym_llm.errors import InvalidReward, UsageError
from gym_llm.evaluation.reverify.reverify import reverify
from gym_llm.evaluation.view.scan import find_trajectory
from gym_llm.records.record_files import read_records
from gym_llm.trainers.shared.advantages import rewards_of_turns
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.vector import LocalVectorEnv
from gym_llm.wrappers import RecordRollouts, TokenIdTracking

DIG, REST = [function_call("dig", {"depth": 2})], [function_call("rest")]
DONE, MORE = message("done"), message("more")
NOT_FINITE = {"nan": math.nan, "inf": -math.inf, "text": "much", "none": None, "masked": np.ma.masked}


class Plain(VerifierEnv):
    """Rewards the end only: 1, and a bonus."""

    def __init__(self, tasks: Any = None, *, bonus: float = 0.0, **kwargs: Any) -> None:
        self.bonus = bonus
        super().__init__(tasks, **kwargs)

    @tool
    def dig(self, depth: int) -> str:
        """Dig."""
        return "dug"

    @tool
    async def rest(self) -> str:
        """Rest."""
        return "rested"

    def user_turn(self, task: Any, episode: Any) -> str | None:
        return "And?" if episode.answer == "more" else None

    def verify(self, task: Any, episode: Any) -> Verdict:
        return Verdict(1.0 + self.bonus, {"turns": episode.turn, "reward": "the verdict's"})


class Digger(Plain):
    """Pays a quarter for every metre, and takes an eighth for every message."""

    @tool
    def dig(self, depth: int) -> str:
        """Dig."""
        episode: Any = self.episode
        episode.step_reward += 0.25 * depth
        return "dug"

    def user_turn(self, task: Any, episode: Any) -> str | None:
        episode.step_reward -= 0.125
        return super().user_turn(task, episode)


class Unkind(Plain):
    """What it gives for some answers is no number."""

    def user_turn(self, task: Any, episode: Any) -> str | None:
        episode.step_reward = NOT_FINITE.get(episode.answer, 0.0)
        return None


CLASSES = {"turns/Plain-v0": Plain, "turns/Digger-v0": Digger, "turns/Unkind-v0": Unkind}
PLAIN, DIGGER, UNKIND = CLASSES
LIMITED = "turns/Limited-v0"


@pytest.fixture(autouse=True)
def ids() -> Iterator[None]:
    for name, cls in CLASSES.items():
        gym.register(name, cls)
    gym.register(LIMITED, Digger, max_episode_steps=2)
    yield
    for name in (*CLASSES, LIMITED):
        del gym.registry[name]


class Script(Engine):
    """Says one thing after the other, each as the ids 2000 + n and 3000 + n, after a prompt of all ids before and n.

    The prompts of `rewritten` turns begin anew; `silent` ones have no ids.
    """

    model = "script"

    def __init__(self, *turns: list[Any], rewritten: tuple[int, ...] = (), silent: tuple[int, ...] = ()) -> None:
        self.turns, self.rewritten, self.silent = turns, rewritten, silent

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        theirs = ("function_call_output", "message")
        number = sum(
            item.get("type", "message") in theirs and item.get("role") != "assistant" for item in request["input"]
        )
        turn = number - 1
        before = [token for n in range(turn) for token in (n, 2000 + n, 3000 + n)]
        tokens = {
            "prompt_token_ids": [turn] if turn in self.rewritten else [*before, turn],
            "generation_token_ids": [2000 + turn, 3000 + turn],
            "generation_log_probs": [-0.5, -0.25],
        }
        said = self.turns[turn]
        return response(*said) if turn in self.silent else response(*said[:-1], {**said[-1], **tokens})


class Echo(Engine):
    """Says what its task asks it to."""

    model = "echo"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        return response(message_item(request["input"][0]["content"]))


def steps(env: Any, *actions: Any) -> list[Any]:
    """Of each step: reward, terminated, truncated, and the info's reward."""
    env.reset(options={"task_index": 0})
    return [(*result[1:4], result[4].get("reward")) for result in map(env.step, actions)]


def played(engine: Engine, env_id: str = DIGGER, **arguments: Any) -> Any:
    """The record of one episode, as it is read when it has been written."""
    (record,) = gym_llm.collect(env_id, engine, tasks=[row()], **arguments)
    return loads(dumps(record))


def rewards(record: Any) -> list[list[float]]:
    return [segment["rewards"] for segment in record["trajectory"]]


# Steps --------------------------------------------------------------------------------------------------------------


def test_what_hooks_give_is_the_step_s_reward_and_in_its_info() -> None:
    env = gym.make(DIGGER, tasks=[row()])
    assert steps(env, DIG, REST, DONE) == [
        (0.5, False, False, 0.5),
        (0.0, False, False, None),
        (0.875, True, False, -0.125),
    ]
    two_calls = [*DIG, {**DIG[0], "call_id": "2"}]
    assert steps(env, MORE, two_calls) == [(-0.125, False, False, -0.125), (1.0, False, False, 1.0)]
    assert steps(Digger([row()], max_turns=1), DIG) == [(1.5, False, True, 0.5)]
    check_env(gym.make(DIGGER, tasks=[row()]).unwrapped)


def test_a_detail_of_a_verdict_is_not_taken_for_it() -> None:
    assert steps(Plain([row()]), DIG, DONE) == [(0.0, False, False, None), (1.0, True, False, None)]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [("nan", "nan"), ("inf", "-inf"), ("text", "'much'"), ("none", "None"), ("masked", "a MaskedConstant")],
)
@pytest.mark.filterwarnings("ignore:1 of 2 episodes")
def test_one_that_is_no_finite_number_masks_the_episode(answer: str, shown: str) -> None:
    with pytest.raises(InvalidReward, match=f"this turn's step_reward is {shown}"):
        steps(Unkind([row()]), message(answer))
    masked, scored = gym_llm.collect(UNKIND, Echo(), tasks=[row(answer), row("fine")], retries=0)
    assert (masked["outcome"], masked["failure_kind"], masked["reward"]) == ("masked", "verifier_error", None)
    assert "turn_rewards" not in masked and scored["reward"] == 1.0
    assert rewards_of_turns(masked) is None


def test_a_vector_s_rewards_and_infos_have_them() -> None:
    with LocalVectorEnv(DIGGER, 2, tasks=[row()]) as envs:
        envs.reset()
        _, got, _, _, infos = envs.step([DIG, REST])
        assert got.tolist() == [0.5, 0.0]
        assert (infos["reward"].tolist(), infos["_reward"].tolist()) == ([0.5, 0.0], [True, False])


def test_mixed_gives_what_its_verifier_gives() -> None:
    env = TimeLimit(gym.make("gym_llm/Mixed-v0", tasks=[row(env_id=DIGGER)]), 2)
    assert steps(env, DIG) == [(0.5, False, False, 0.5)]
    assert Driver(env).step(DIG)[1] == 1.5


# Records ------------------------------------------------------------------------------------------------------------


def test_a_record_has_what_each_turn_came_to() -> None:
    record = played(Script(DIG, REST, MORE, DONE))
    assert record["turn_rewards"] == [0.5, 0.0, -0.125, 0.875]
    assert record["reward"] == sum(record["turn_rewards"]) == 1.25
    assert rewards_of_turns(record) == record["turn_rewards"]
    assert record["info"] == {"task_index": 0, "turn": 4, "tool_errors": 0, "reward": -0.125, "turns": 4}


def test_where_only_the_last_turn_has_a_reward_nothing_is_new() -> None:
    for env_id, reward in ((PLAIN, 1.0), (DIGGER, 0.875)):
        record = played(Script(REST, DONE), env_id)
        assert "turn_rewards" not in record and record["reward"] == reward
        assert [*record["trajectory"][0]] == ["input_ids", "loss_mask", "logprobs"]
        assert rewards_of_turns(record) == [0.0, reward]


def test_whoever_steps_itself_records_them(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    steps(RecordRollouts(TimeLimit(Digger([row()]), 2), path), DIG, DIG)
    ((_, record),) = read_records(path)
    assert (record["turn_rewards"], record["reward"]) == ([0.5, 1.5], 2.0)


# Trajectories -------------------------------------------------------------------------------------------------------


def test_a_trajectory_has_each_reward_at_its_turn_s_last_sampled_token() -> None:
    record = played(Script(DIG, REST, MORE, DONE, rewritten=(2,)))
    assert [segment["input_ids"] for segment in record["trajectory"]] == [
        [0, 2000, 3000, 1, 2001, 3001],
        [2, 2002, 3002],
        [0, 2000, 3000, 1, 2001, 3001, 2, 2002, 3002, 3, 2003, 3003],
    ]
    assert rewards(record) == [[0.0, 0.0, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, -0.125], [0.0] * 11 + [0.875]]


def test_the_reward_of_a_turn_without_tokens_has_no_place_among_them() -> None:
    record = played(Script(REST, DIG, DONE, silent=(1,)))
    assert record["turn_rewards"] == [0.0, 0.5, 0.875]
    assert [reward for segment in rewards(record) for reward in segment if reward] == [0.875]


def test_a_turn_of_several_samples_is_rewarded_at_the_last() -> None:
    env = TokenIdTracking(Digger([row()]))
    env.reset()
    sampled = {"generation_token_ids": [7], "generation_log_probs": [-1.0]}
    env.step([{**DIG[0], "prompt_token_ids": [1], **sampled}, {**REST[0], "prompt_token_ids": [1, 7], **sampled}])
    *_, info = env.step([{**DONE[0], "prompt_token_ids": [1, 7, 7], **sampled}])
    assert rewards(info) == [[0.0, 0.0, 0.5, 0.875]]
    env.reset()
    *_, info = env.step([{**DONE[0], "prompt_token_ids": [1], **sampled}])
    assert "rewards" not in info["trajectory"][0]


def test_a_wrapper_s_rewards_are_turns_too() -> None:
    paid = [lambda env: TransformReward(env, lambda reward: reward - 0.5), TokenIdTracking]
    record = played(Script(REST, DONE), PLAIN, wrappers=paid)
    assert (record["turn_rewards"], record["reward"]) == ([-0.5, 0.5], 0.0)
    assert rewards(record) == [[0.0, 0.0, -0.5, 0.0, 0.0, 0.5]]


def test_what_a_wrapper_cuts_short_has_its_turns_and_its_score() -> None:
    record = played(Script(DIG, DIG), LIMITED)
    assert (record["outcome"], record["turn_rewards"], record["reward"]) == ("truncated", [0.5, 1.5], 2.0)
    assert rewards(record) == [[0.0, 0.0, 0.5, 0.0, 0.0, 1.5]]
    env = TransformReward(TimeLimit(Digger([row()]), 1), lambda reward: reward**2)
    env.reset()
    assert Driver(env).step(DIG)[1] == 1.5**2


def test_the_viewer_finds_the_trajectory_without_parsing_it() -> None:
    line = dumps(played(Script(DIG, DONE)))
    line = line.replace(b'"rewards":[', b'"constrained":[0],"rewards":[')
    start, length = find_trajectory(line)
    assert b'"rewards":[' in line[start : start + length]
    assert "trajectory" not in loads(line[:start] + line[start + length :])


# Scored again -------------------------------------------------------------------------------------------------------


def dig_twice(request: Any, task: int, repeat: int) -> Any:
    return DONE if len(request["input"]) > 4 else DIG


@pytest.mark.parametrize(("recorded", "now"), [(DIGGER, PLAIN), (PLAIN, DIGGER), (DIGGER, DIGGER)])
def test_items_alone_do_not_tell_rewards_of_turns(tmp_path: Path, recorded: str, now: str) -> None:
    path = play(tmp_path / "a.jsonl", recorded, dig_twice, tasks=[row()])
    with pytest.raises(UsageError, match="run the tools again"):
        reverify(path, now, output=tmp_path / "b.jsonl")


def test_a_reward_of_the_last_turn_is_noticed_too(tmp_path: Path) -> None:
    path = play(tmp_path / "a.jsonl", DIGGER, lambda *_: "done", tasks=[row()])
    with pytest.raises(UsageError, match="rewards turns"):
        reverify(path, PLAIN)


def test_tools_that_run_again_reward_again(tmp_path: Path) -> None:
    path, same, other = tmp_path / "a.jsonl", tmp_path / "same.jsonl", tmp_path / "other.jsonl"
    with gym_llm.Run(DIGGER, Script(DIG, DIG, DONE), tasks=[row()], output=path) as run:
        run.play()
    assert reverify(path, DIGGER, rerun_tools=True, output=same).changes == []
    assert same.read_bytes() == path.read_bytes()
    reverify(path, DIGGER, env_kwargs={"bonus": 1.0}, rerun_tools=True, output=other)
    ((_, record),) = read_records(other)
    assert (record["turn_rewards"], record["reward"]) == ([0.5, 0.5, 1.875], 2.875)
    assert [*record["trajectory"][0]] == ["input_ids", "loss_mask", "logprobs"]  # what stood there is no longer so
    reverify(path, PLAIN, rerun_tools=True, output=tmp_path / "plain.jsonl")
    ((_, record),) = read_records(tmp_path / "plain.jsonl")
    assert "turn_rewards" not in record and record["reward"] == 1.0


def test_show_prints_them(tmp_path: Path, capsys: Any) -> None:
    path = play(tmp_path / "a.jsonl", DIGGER, dig_twice, tasks=[row()])
    capsys.readouterr()
    assert main(["show", str(path)]) == 0
    assert "turn rewards: [0.5, 0.5, 0.875]" in capsys.readouterr().out
