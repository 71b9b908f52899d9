"""Rollouts and environments whose tasks a sampler draws."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import gymnasium as gym
import pytest
from testing import message, row

import gym_llm
from gym_llm import TaskSampler, VerifierEnv
from gym_llm.engines.engine import Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.errors import UsageError
from gym_llm.trainers.shared.token_rows import token_rows

ROWS = [row(str(number), level=number) for number in range(4)]


class Pays(VerifierEnv):
    """The answer is the reward, and each earlier turn pays 0.25."""

    def user_turn(self, task: Any, episode: Any) -> str | None:
        episode.step_reward = 0.25 if episode.answer == "more" else 0.0
        return "go on" if episode.answer == "more" else None

    def verify(self, task: Any, episode: Any) -> float:
        return 0.0 if episode.answer == "more" else float(episode.answer)


ENV = "drawn_tasks/Pays-v0"
gym.register(ENV, Pays)


class Half(Engine):
    """Solves every second episode of task 2, all of task 0, and none else."""

    model = "half"

    def __init__(self) -> None:
        self.played: list[tuple[int, int]] = []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        task, repeat = map(int, episode_id.split("-"))
        self.played.append((task, repeat))
        await asyncio.sleep(0)
        text = "1" if task == 0 or (task == 2 and repeat % 2) else "0"
        return text_response(text, tokens=([1], [2, 3], [-0.5, -0.5]), model=self.model)


def play(engine: Engine, sampler: TaskSampler, **options: Any) -> list[Any]:
    async def found() -> list[Any]:
        options.setdefault("tasks", ROWS)
        return [each async for each in gym_llm.rollout(ENV, engine, sampler=sampler, **options)]

    return asyncio.run(found())


def test_groups_are_of_drawn_tasks_and_their_rewards_steer_the_draws() -> None:
    engine, sampler = Half(), TaskSampler(share=0.01, seed=1)
    groups = play(engine, sampler, group_size=2, limit=120, concurrency=4)
    assert len(groups) == 120
    tasks = [group[0]["rollout_id"]["task_index"] for group in groups]
    assert Counter(tasks[60:])[2] > 30 and sampler.probability(2) > 0.5
    assert len(set(engine.played)) == len(engine.played) == 240  # a task that comes again has other repeat indexes
    for group in groups:
        odds = {record["info"]["task_probability"] for record in group}
        assert len(odds) == 1 and 0 < odds.pop() < 1
        assert [record["rollout_id"]["repeat_index"] % 2 for record in group] == [0, 1]


def test_single_episodes_are_drawn_too_and_the_probability_is_in_their_rows() -> None:
    sampler = TaskSampler(by="uniform", weight=lambda index: float(ROWS[index]["level"] >= 2))
    records = play(Half(), sampler, limit=9)
    assert len(records) == 9 and {record["rollout_id"]["task_index"] for record in records} == {2, 3}
    assert {found.task_probability for record in records for found in token_rows(record)} == {0.5}
    assert len(play(Half(), sampler, repeats=3)) == 4 * 3  # as many draws as there are tasks


def test_settled_groups_are_drawn_tasks_too() -> None:
    engine, dropped = Half(), Counter[str]()
    groups = play(engine, TaskSampler(seed=2), group_size=4, limit=40, settle_after=2, dropped=dropped)
    assert {group[0]["rollout_id"]["task_index"] for group in groups} == {2}
    assert len(groups) + dropped["settled"] == 40 and all(len(group) == 4 for group in groups)


@pytest.mark.slow
def test_the_sampler_of_episodes_in_other_processes_is_this_ones(ray: Any) -> None:
    sampler = TaskSampler(by="uniform", weight=lambda index: float(index == 3))

    async def found() -> list[Any]:
        played = gym_llm.rollout(
            "gym_llm/FollowUp-v0",
            "constant:yes",
            tasks=[row(str(n), expected_answer="yes") for n in range(4)],
            sampler=sampler,
            limit=6,
            workers=2,
        )
        return [record async for record in played]

    assert [record["reward"] for record in asyncio.run(found())] == [1.0] * 6
    assert max(sampler.state_dict()["tasks"].values())[0] == pytest.approx(0.2 + sum(0.98**n for n in range(6)))


@pytest.mark.parametrize("options", [{"episodes": 3}, {"skip": {(0, 0)}}, {"durable": "journal"}])
def test_what_draws_cannot_go_with_is_refused(options: Any) -> None:
    with pytest.raises(ValueError, match="give `limit`"):
        play(Half(), TaskSampler(), **options)


def test_tasks_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="argument of `rollout`"):
        gym_llm.collect(ENV, "random", tasks=ROWS, env_kwargs={"sampler": TaskSampler()})
    with pytest.raises(ValueError, match="other processes"):
        gym.make_vec("gym_llm/Weather-v0", 2, sampler=TaskSampler())
    for sampler, error in ((TaskSampler(), UsageError), ("uniform", ValueError)):
        with pytest.raises(error, match=r"can be counted|a gym_llm\.TaskSampler"):
            gym.make("gym_llm/Arithmetic-v0", sampler=sampler)


# -- environments ------------------------------------------------------------------------------------------------------


def test_reset_draws_and_the_whole_reward_is_learned() -> None:
    sampler = TaskSampler(by="uniform", weight=lambda index: float(index == 1))
    env = gym.make(ENV, tasks=ROWS, sampler=sampler)
    _, info = env.reset()
    assert info["task_index"] == 1 and info["task_probability"] == 1.0
    *_, info = env.step(message("more"))
    before = sampler.state_dict()["tasks"]
    assert "task_probability" not in info and set(map(tuple, before.values())) == {(0.2, 0.2)}
    *_, terminated, _, info = env.step(message("0.5"))
    assert terminated and info["task_probability"] == 1.0
    assert [0.95, 0.45] in sampler.state_dict()["tasks"].values()
    assert env.reset(options={"task_index": 3})[1].keys() == {"task_index", "turn", "tool_errors"}
    after = sampler.state_dict()["tasks"]
    env.step(message("1"))  # nobody drew it
    assert sampler.state_dict()["tasks"] == after


def test_a_failed_episode_changes_nothing_and_a_truncated_one_counts() -> None:
    sampler = TaskSampler(seed=4)
    env = gym.make(ENV, tasks=ROWS, sampler=sampler, max_turns=1)
    env.reset()
    with pytest.raises(ValueError, match="could not convert"):
        env.step(message("no number"))
    assert set(map(tuple, sampler.state_dict()["tasks"].values())) == {(0.2, 0.2)}
    _, info = env.reset()
    assert env.step(message("more"))[3]
    assert list(sampler.state_dict()["tasks"].values())[info["task_index"]] == [0.45, 0.95]


def test_environments_share_a_sampler() -> None:
    sampler = TaskSampler(share=0.01, seed=5)
    envs = [gym.make(ENV, tasks=ROWS, sampler=sampler) for _ in range(3)]
    for number in range(300):
        env = envs[number % 3]
        _, info = env.reset()
        env.step(message(str(number % 2 if info["task_index"] == 3 else 1)))
    assert sampler.probability(3) > 0.65


def test_a_mixture_whose_weights_change() -> None:
    shares = {"gym_llm/FollowUp-v0": 1.0, "gym_llm/StringMatch-v0": 0.0}
    names = ["gym_llm/FollowUp-v0", "gym_llm/FollowUp-v0", "gym_llm/StringMatch-v0"]
    rows = [row(str(n), expected_answer="yes", env_id=name) for n, name in enumerate(names)]
    sampler = TaskSampler(by="uniform", weight=lambda index: shares[rows[index]["env_id"]])
    env = gym.make("gym_llm/Mixed-v0", tasks=rows, sampler=sampler, disable_env_checker=True)
    for _ in range(20):
        _, info = env.reset()
        assert info["env_id"] == "gym_llm/FollowUp-v0" and info["task_probability"] == 0.5
        *_, info = env.step(message("yes"))
        assert info["task_probability"] == 0.5
    assert sum(one for one, _ in sampler.state_dict()["tasks"].values()) > 10
    shares.update({"gym_llm/FollowUp-v0": 0.5, "gym_llm/StringMatch-v0": 9.0})
    sampler.reweight()
    assert sum(env.reset()[1]["env_id"] == "gym_llm/StringMatch-v0" for _ in range(50)) > 35
