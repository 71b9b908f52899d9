"""Episodes that a wrapper truncates are scored by `verify`, whoever drives them: no reward is a 0 that nobody gave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit, TransformReward
from testing import function_call, message_item, response, row

import gym_llm
from gym_llm import Verdict, VerifierEnv, tool
from gym_llm.core.driver import Driver
from gym_llm.data import read_jsonl
from gym_llm.engines import Engine
from gym_llm.errors import JudgeError
from gym_llm.vector import LocalVectorEnv
from gym_llm.wrappers import RecordRollouts

GO = [function_call("go")]


class Walk(VerifierEnv):
    """Goes on for ever, and pays a quarter for every turn; `how` says what else `verify` does."""

    def __init__(self, tasks: Any = None, *, how: str = "", **kwargs: Any) -> None:
        self.how = how
        self.torn_down = 0
        super().__init__(tasks, **kwargs)

    @tool
    def go(self) -> str:
        """Go on."""
        return "went"

    def verify(self, task: Any, episode: Any) -> Any:
        verdict = Verdict(0.25 * episode.turn, {"walked": episode.turn})

        async def later() -> Verdict:
            await asyncio.sleep(0.001)
            return verdict

        if self.how == "down":
            raise JudgeError("the judge is down")
        return later() if self.how == "later" else verdict

    def teardown(self, task: Any, episode: Any) -> None:
        self.torn_down += 1


class Stops(gym.Wrapper[Any, Any, Any, Any]):
    """Ends an episode at its second turn: cuts it short, or pays for it itself."""

    def __init__(self, env: Any, terminates: bool = False) -> None:
        super().__init__(env)
        self.terminates = terminates

    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = self.env.step(action)
        ends = info["turn"] == 2
        pays = ends and self.terminates
        return observation, reward + 3.0 * pays, terminated or pays, ends, info


class Goes(Engine):
    """Calls the tool in every turn."""

    model = "goes"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        return response(*GO) if "go" in {each["name"] for each in request["tools"]} else response(message_item("x"))


@pytest.fixture(autouse=True)
def ids() -> Iterator[None]:
    gym.register("short/Walk-v0", Walk)
    gym.register("short/Limited-v0", Walk, max_episode_steps=2)
    yield
    del gym.registry["short/Walk-v0"], gym.registry["short/Limited-v0"]


def two_steps(env: Any, action: Any = GO) -> Any:
    env.reset(options={"task_index": 0})
    assert env.step(action)[1:4] == (0.0, False, False)
    return env.step(action)


@pytest.mark.parametrize("how", ["", "later"])
@pytest.mark.parametrize("wrapper", [lambda env: TimeLimit(env, 2), Stops])
def test_a_rollout_scores_what_a_wrapper_cuts_short(how: str, wrapper: Any) -> None:
    records = gym_llm.collect(
        "short/Walk-v0", Goes(), tasks=[row()] * 3, env_kwargs={"how": how}, wrappers=[wrapper], concurrency=2
    )
    for record in records:
        assert (record["outcome"], record["reward"], record["error"]) == ("truncated", 0.5, None)
        assert (record["terminated"], record["truncated"]) == (False, True)
        assert record["info"]["walked"] == 2


def test_an_id_s_limit_is_a_truncation_with_a_reward() -> None:
    (record,) = gym_llm.collect("short/Limited-v0", Goes(), tasks=[row()])
    assert (record["outcome"], record["reward"]) == ("truncated", 0.5)


@pytest.mark.filterwarnings("ignore:1 of 2 episodes is masked")
def test_a_verifier_that_fails_there_masks_the_episode() -> None:
    class Half(Walk):
        def verify(self, task: Any, episode: Any) -> Any:
            self.how = "down" if episode.task_index else ""
            return super().verify(task, episode)

    gym.register("short/Half-v0", Half)
    try:
        records = gym_llm.collect(
            "short/Half-v0", Goes(), tasks=[row()] * 2, wrappers=[lambda env: TimeLimit(env, 2)], retries=0
        )
    finally:
        del gym.registry["short/Half-v0"]
    assert [record["reward"] for record in records] == [0.5, None]
    assert (records[1]["failure_kind"], records[1]["error_phase"]) == ("judge_failed", "verify")


def test_a_wrapper_that_terminates_an_episode_has_scored_it_itself() -> None:
    (record,) = gym_llm.collect(
        "short/Walk-v0", Goes(), tasks=[row()], wrappers=[lambda env: Stops(env, terminates=True)]
    )
    assert (record["reward"], record["terminated"]) == (3.0, True)


def test_reward_wrappers_see_the_score() -> None:
    env = Driver(TransformReward(TimeLimit(Walk(tasks=[row()]), 2), lambda reward: 10 * reward + 1))
    env.reset()
    env.step(GO)
    _, reward, *_, info = env.step(GO)
    assert reward == 6.0 and info["walked"] == 2 and env.verifier.torn_down == 1
    with pytest.raises(ResetNeeded):
        env.step(GO)


def test_what_is_over_or_goes_on_is_left_as_it_is() -> None:
    env = Driver(Walk(tasks=[row()], max_turns=2))
    env.reset()
    for _ in range(2):
        step = env.step(GO)
        assert env.score(step) is step
    assert step[1:4] == (0.5, False, True)


@pytest.mark.parametrize("how", ["", "later"])
def test_a_vector_scores_it(how: str) -> None:
    with LocalVectorEnv("short/Limited-v0", 2, tasks=[row()], env_kwargs={"how": how}) as envs:
        envs.reset()
        envs.step([GO] * 2)
        _, rewards, _, truncations, infos = envs.step([GO] * 2)
    assert rewards.tolist() == [0.5, 0.5] and truncations.all() and infos["walked"].tolist() == [2, 2]


def test_mixed_scores_it() -> None:
    tasks = [row(env_id="short/Walk-v0")]
    env = Driver(TimeLimit(gym.make("gym_llm/Mixed-v0", tasks=tasks), 2))
    assert two_steps(env)[1] == 0.5 and env.verifier.is_over


def test_the_limit_of_a_mixed_rollout_holds_for_its_members() -> None:
    tasks = [row(env_id="short/Walk-v0")]
    (record,) = gym_llm.collect("gym_llm/Mixed-v0", Goes(), tasks=tasks, env_kwargs={"max_episode_steps": 2})
    assert (record["outcome"], record["reward"]) == ("truncated", 0.5)


def test_it_is_recorded_and_whoever_steps_is_told(tmp_path: Any) -> None:
    path = tmp_path / "rollouts.jsonl"
    assert two_steps(RecordRollouts(TimeLimit(Walk(tasks=[row()]), 2), path))[1] == 0.5
    ((_, record),) = read_jsonl(path)
    assert (record["outcome"], record["reward"], record["info"]["walked"]) == ("truncated", 0.5, 2)
    with pytest.raises(JudgeError):
        two_steps(RecordRollouts(TimeLimit(Walk(tasks=[row()], how="down"), 2), path))
    _, (_, masked) = read_jsonl(path)
    assert (masked["outcome"], masked["failure_kind"], masked["error_phase"]) == ("masked", "judge_failed", "verify")
