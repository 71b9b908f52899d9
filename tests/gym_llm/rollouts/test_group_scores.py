"""Verifiers of groups: `verify_group` in rollouts, files, resumed runs and alone."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import gymnasium as gym
import pytest
from testing import message, message_item, response, row

import gym_llm
from gym_llm import Run, Verdict, VerifierEnv
from gym_llm.engines.engine import Engine
from gym_llm.errors import EngineError, InvalidReward, JudgeError, UsageError
from gym_llm.evaluation.reverify.reverify import reverify
from gym_llm.records.record_files import read_records
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.vector import LocalVectorEnv


class Table(Engine):
    """Gives each episode its answer after a number of turns of the event loop; None: it fails."""

    model = "table"

    def __init__(self, *groups: Any, waits: dict[tuple[int, int], int] | None = None) -> None:
        self.answers = {(task, repeat): each for task, group in enumerate(groups) for repeat, each in enumerate(group)}
        self.waits = waits or {}
        self.played: list[tuple[int, int]] = []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        task, repeat = map(int, episode_id.split("-"))
        self.played.append((task, repeat))
        for _ in range(self.waits.get((task, repeat), 0)):
            await asyncio.sleep(0)
        if (answer := self.answers[task, repeat]) is None:
            raise EngineError("it is away", failure_kind="agent_request_failed")
        return response(message_item(str(answer)))


ENV_ID = "group_score_tests/AboveMean-v0"


class AboveMean(VerifierEnv):
    """The reward is how far a number is above the mean of its group's numbers."""

    factor = 1.0
    failures: list[Exception] = []
    calls = 0

    def verify_group(self, task, episodes):
        type(self).calls += 1
        if self.failures:
            raise self.failures.pop()
        numbers = [float(episode.answer) for episode in episodes]
        mean = sum(numbers) / len(numbers)
        return [Verdict(self.factor * (number - mean), {"mean": mean}) for number in numbers]


class Bonus(VerifierEnv):
    """A right answer is worth 1.0, and the shortest of its group 0.5 more."""

    def user_turn(self, task, episode):
        episode.step_reward += 0.25
        return "And?" if episode.turn < 2 else None

    def verify(self, task, episode):
        return Verdict(1.0, {"own": True})

    async def verify_group(self, task, episodes):
        await asyncio.sleep(0)
        assert all(episode.state is None and episode.turn == 2 for episode in episodes)
        shortest = min(len(episode.text) for episode in episodes)
        return [0.5 * (len(episode.text) == shortest) for episode in episodes]


class Wrong(VerifierEnv):
    """Returns what it is given."""

    value: Any = None

    def verify_group(self, task, episodes):
        return self.value


gym.register(ENV_ID, AboveMean)
gym.register("group_score_tests/Bonus-v0", Bonus)
gym.register("group_score_tests/Wrong-v0", Wrong)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AboveMean, "failures", [])
    monkeypatch.setattr(AboveMean, "factor", 1.0)


def rows(count: int) -> list[dict[str, Any]]:
    return [row(str(number)) for number in range(count)]


def play(engine: Table, tasks: int, size: int, env_id: str = ENV_ID, **options: Any) -> list[list[dict[str, Any]]]:
    async def groups() -> list[Any]:
        played = gym_llm.rollout(env_id, engine, tasks=rows(tasks), group_size=size, **options)
        return [group async for group in played]

    return asyncio.run(groups())


def rewards(group: list[dict[str, Any]]) -> list[float | None]:
    return [record["reward"] for record in group]


def test_a_group_is_scored_when_it_is_whole_and_each_record_says_with_whom() -> None:
    engine = Table((1, 2, 3), (5, 5, 8), waits={(0, 0): 40})
    second, first = play(engine, 2, 3)
    assert (rewards(first), rewards(second)) == ([-1.0, 0.0, 1.0], [-1.0, -1.0, 2.0])
    assert [record["info"]["mean"] for record in first] == [2.0] * 3
    assert first[0]["info"]["group"] == {"size": 3, "members": [0, 1, 2]}
    assert [record["outcome"] for record in first] == ["scored"] * 3


def test_single_records_come_with_their_groups_reward_too() -> None:
    records = gym_llm.collect(ENV_ID, Table((1, 3), (4, 4)), tasks=rows(2), repeats=2)
    assert [record["reward"] for record in records] == [-1.0, 1.0, 0.0, 0.0]


def test_rewards_of_turns_and_of_verify_are_kept_and_the_groups_is_added() -> None:
    (group,) = play(Table((1, 22)), 1, 2, "group_score_tests/Bonus-v0")
    assert rewards(group) == [2.0, 1.5] and [record["turn_rewards"] for record in group] == [[0.25, 1.75], [0.25, 1.25]]
    assert group[1]["info"]["own"] is True


def test_a_masked_episode_is_left_out_and_one_that_is_left_alone_is_masked() -> None:
    groups = play(Table((1, None, 3), (None, None, 3), (1, 2, 6)), 3, 3, retries=0)
    one_away, alone, two = sorted(groups, key=lambda group: group[0]["rollout_id"]["task_index"])
    assert rewards(one_away) == [-1.0, None, 1.0] and one_away[1]["info"]["group"] == {"size": 3, "members": [0, 2]}
    assert rewards(alone) == [None] * 3 and alone[2]["failure_kind"] == "cohort_incomplete"
    assert rewards(two) == [-2.0, -1.0, 3.0]


def test_a_failure_of_verify_group_masks_its_whole_group_and_no_other() -> None:
    AboveMean.failures = [KeyError("bug")]
    groups = play(Table((1, 3), (1, 3)), 2, 2, concurrency=1)
    assert sorted(map(str, map(rewards, groups))) == ["[-1.0, 1.0]", "[None, None]"]
    masked = next(group for group in groups if group[0]["reward"] is None)
    assert {(each["failure_kind"], each["error_phase"], each["outcome"]) for each in masked} == {
        ("verifier_error", "verify", "masked")
    }


def test_a_judge_that_is_down_is_asked_again() -> None:
    AboveMean.failures = [JudgeError("down")]
    assert rewards(play(Table((1, 3)), 1, 2)[0]) == [-1.0, 1.0]
    AboveMean.failures = [JudgeError("down")]
    assert rewards(play(Table((1, 3)), 1, 2, retries=0)[0]) == [None, None]


@pytest.mark.parametrize("value", [[1.0], [1.0, float("nan")], "ab", {"a": 1, "b": 2}, None, 3.0, [1.0, None]])
def test_anything_but_one_finite_reward_for_each_masks_the_group(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "value", value)
    (group,) = play(Table((1, 3)), 1, 2, "group_score_tests/Wrong-v0")
    assert rewards(group) == [None, None] and "InvalidReward" in group[0]["error"]


def test_groups_of_equal_rewards_are_dropped_by_what_the_group_gave() -> None:
    dropped: Counter[str] = Counter()
    (group,) = play(Table((4, 4), (4, 6)), 2, 2, drop_equal=True, dropped=dropped)
    assert rewards(group) == [-1.0, 1.0] and dropped == {"equal": 1, "episodes": 2}


def test_an_episode_alone_is_a_group_of_one() -> None:
    env = gym.make(ENV_ID, tasks=rows(1))
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(message("7"))
    assert (reward, terminated, info["mean"], info["group"]) == (0.0, True, 7.0, {"size": 1})
    env = gym.make("group_score_tests/Wrong-v0", tasks=rows(1))
    env.reset(seed=0)
    with pytest.raises(InvalidReward, match="verify_group"):
        env.step(message("7"))


def test_who_would_not_keep_groups_together_is_refused() -> None:
    with pytest.raises(ValueError, match="repeats"):
        gym_llm.collect(ENV_ID, Table((1,)), tasks=rows(1))
    with pytest.raises(ValueError, match="episodes"):
        gym_llm.collect(ENV_ID, Table((1,)), tasks=rows(1), episodes=3)
    with pytest.raises(ValueError, match="skip"):
        gym_llm.collect(ENV_ID, Table((1, 2)), tasks=rows(1), repeats=2, skip={(0, 1)})
    with pytest.raises(ValueError, match="settle_after"):
        play(Table((1, 2, 3)), 1, 3, settle_after=2)
    halved = [lambda env: gym.wrappers.TransformReward(env, lambda reward: reward / 2)]
    with pytest.raises(UsageError, match="TransformReward"):
        play(Table((1, 2)), 1, 2, wrappers=halved)
    with pytest.raises(UsageError, match="one by one"):
        EnvPool(EnvFactory(ENV_ID, tasks=rows(1)))

    async def vector() -> None:
        envs = LocalVectorEnv(ENV_ID, 2, tasks=rows(1))
        async for _ in envs.rollout(Table((1, 2)), [Job(0, 0), Job(0, 1)]):
            pass

    with pytest.raises(UsageError, match="one by one"):
        asyncio.run(vector())


def test_a_batch_of_a_trainer_is_scored_by_its_tasks() -> None:
    pool = EnvPool(EnvFactory(ENV_ID, tasks=rows(2)), concurrency=4)
    try:
        engine = Table((1, 3), (2, 2))
        records = pool.play_all([Job(0, 0), Job(1, 0), Job(1, 1), Job(0, 1)], engine)
        assert rewards(records) == [-1.0, 0.0, 0.0, 1.0]
        with pytest.raises(UsageError, match="one by one"):
            pool.play_all([Job(0, 0), Job(0, 1), Job(1, 0)], engine)
    finally:
        pool.close()


def test_a_file_has_whole_groups_and_a_resumed_run_plays_a_torn_one_again(tmp_path: Any) -> None:
    path = tmp_path / "a.jsonl"
    kwargs: dict[str, Any] = {"tasks": rows(3), "repeats": 2, "output": path}
    with Run(ENV_ID, Table((1, 3), (2, 6), (4, 4)), **kwargs) as run:
        run.play()
    lines = path.read_bytes().splitlines(keepends=True)
    tasks = [json.loads(line)["rollout_id"]["task_index"] for line in lines]
    assert tasks[0::2] == tasks[1::2]  # each group is written together
    path.write_bytes(b"".join(lines[:3]))
    torn = tasks[2]
    engine = Table((1, 3), (2, 6), (4, 4))
    with Run(ENV_ID, engine, **kwargs, resume=True) as run:
        assert run.remaining == 4
        run.play()
    assert sorted(engine.played) == sorted((task, repeat) for task in {torn, tasks[4]} for repeat in (0, 1))
    got = {tuple(record["rollout_id"].values()): record["reward"] for _, record in read_records(path)}
    assert got == {(0, 0): -1, (0, 1): 1, (1, 0): -2, (1, 1): 2, (2, 0): 0, (2, 1): 0}


def test_retrying_a_masked_episode_plays_its_whole_group(tmp_path: Any) -> None:
    path = tmp_path / "a.jsonl"
    kwargs: dict[str, Any] = {"tasks": rows(2), "repeats": 3, "output": path}
    with Run(ENV_ID, Table((1, None, 3), (1, 2, 3)), **kwargs) as run:
        run.play()
    engine = Table((1, 5, 3), (0, 0, 0))
    with Run(ENV_ID, engine, **kwargs, resume=True, retry_failed=True) as run:
        run.play()
    assert sorted(engine.played) == [(0, 0), (0, 1), (0, 2)]
    got = {tuple(record["rollout_id"].values()): record["reward"] for _, record in read_records(path)}
    assert [got[0, repeat] for repeat in range(3)] == [-2.0, 2.0, 0.0] and got[1, 2] == 1.0


def test_reverify_scores_groups_of_a_file_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, new = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    with Run(ENV_ID, Table((1, None, 3), (1, 2, 6)), tasks=rows(2), repeats=3, output=path) as run:
        run.play()
    same = reverify(path, ENV_ID)
    assert (same.records, same.scored, same.left_masked, same.changes) == (6, 5, 1, [])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in (3, 0, 4, 1, 5, 2)))  # groups need not lie together
    monkeypatch.setattr(AboveMean, "factor", 2.0)
    changed = reverify(path, ENV_ID, output=new)
    got = {tuple(record["rollout_id"].values()): record["reward"] for _, record in read_records(new)}
    assert got == {(0, 0): -2, (0, 1): None, (0, 2): 2, (1, 0): -4, (1, 1): -2, (1, 2): 6}
    assert changed.counts()["reward_up"] == 2 and changed.counts()["reward_down"] == 3
    assert reverify(new, ENV_ID).changes == []


def test_reverify_leaves_a_torn_group_as_it_is(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    with Run(ENV_ID, Table((1, 3), (2, 6)), tasks=rows(2), repeats=2, output=path) as run:
        run.play()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    monkeypatch.setattr(AboveMean, "factor", 2.0)
    report = reverify(path, ENV_ID)
    assert (report.records, report.scored, len(report.changes)) == (3, 2, 2)
