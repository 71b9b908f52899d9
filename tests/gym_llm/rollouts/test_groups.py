"""Groups: whole ones, as soon as they are, and what is left out of them is counted."""

import asyncio
import random
from collections import Counter

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import message_item, response, row

import gym_llm
from gym_llm import VerifierEnv
from gym_llm.engines.engine import Engine
from gym_llm.errors import EngineError
from gym_llm.rollouts.groups import GroupJobs
from gym_llm.rollouts.plan import open_plan


class SaysItsReward(VerifierEnv):
    """The answer is the reward."""

    def verify(self, task, episode):
        return float(episode.answer)


gym.register("group_tests/SaysItsReward-v0", SaysItsReward)


class Table(Engine):
    """Gives each episode its answer after a number of turns of the event loop; None: it fails."""

    model = "table"

    def __init__(self, answers, waits=None):
        self.answers, self.waits = answers, waits or {}
        self.played = []

    async def respond(self, request, *, episode_id=""):
        job = tuple(int(part) for part in episode_id.split("-"))
        self.played.append(job)
        for _ in range(self.waits.get(job, 0)):
            await asyncio.sleep(0)
        answer = self.answers[job]
        if answer is None:
            raise EngineError("it is away", failure_kind="engine_error")
        return response(message_item(str(answer)))


def table(*groups, **arguments):
    return Table({(n, m): answer for n, group in enumerate(groups) for m, answer in enumerate(group)}, **arguments)


def play(engine, tasks, size, **options):
    async def groups():
        rows = [row(str(n)) for n in range(tasks)]
        played = gym_llm.rollout("group_tests/SaysItsReward-v0", engine, tasks=rows, group_size=size, **options)
        return [group async for group in played]

    return asyncio.run(groups())


def rewards(groups):
    return {group[0]["rollout_id"]["task_index"]: [record["reward"] for record in group] for group in groups}


def test_each_group_is_whole_and_in_order_and_masked_members_are_in_it():
    answers = [[1.0, 0.0, None, 0.5], [0.0] * 4, [None] * 4]
    groups = play(table(*answers), 3, 4, concurrency=3)
    assert rewards(groups) == dict(enumerate(answers))
    assert all([record["rollout_id"]["repeat_index"] for record in group] == [0, 1, 2, 3] for group in groups)


def test_no_group_waits_for_another():
    engine = table([1.0, 0.0], [0.0, 0.0], [1.0, 1.0], waits={(0, 1): 10_000})
    groups = play(engine, 3, 2, concurrency=2)
    assert list(rewards(groups)) == [1, 2, 0]


def test_groups_of_equals_are_left_out_and_counted():
    dropped = Counter()
    engine = table([1.0, 0.0, 1.0], [1.0] * 3, [None, None, 1.0], [0.0, None, 0.0], [0.0, None, 1.0])
    groups = play(engine, 5, 3, drop_equal=True, dropped=dropped)
    assert rewards(groups) == {0: [1.0, 0.0, 1.0], 4: [0.0, None, 1.0]}
    assert dropped == {"equal": 2, "masked": 1, "episodes": 9}


@pytest.mark.parametrize("concurrency", [1, 4, 64])
def test_a_settled_group_is_not_played_on(concurrency):
    dropped = Counter()
    engine = table([1.0] * 6, [1.0, 0.0, 1.0, 1.0, 1.0, 1.0], [None, None, 1.0, 0.0, 1.0, 1.0], [0.0] * 6)
    groups = play(engine, 4, 6, settle_after=2, dropped=dropped, concurrency=concurrency)
    assert sorted(rewards(groups)) == [1, 2]
    assert dropped == {"settled": 2, "episodes": 4}
    assert Counter(task for task, _ in engine.played) == {0: 2, 1: 6, 2: 6, 3: 2}


def test_who_has_enough_groups_stops():
    async def first(count):
        rows = [row(str(n)) for n in range(50)]
        engine = table(*[[0.0, 1.0]] * 50)
        played = gym_llm.rollout("group_tests/SaysItsReward-v0", engine, tasks=rows, group_size=2, concurrency=4)
        async for _ in played:
            count -= 1
            if not count:
                await played.aclose()
        return len(engine.played)

    assert asyncio.run(first(3)) < 30


@pytest.mark.slow
def test_over_ray(ray):
    dropped = Counter()

    async def groups():
        played = gym_llm.rollout(
            "gym_llm/Arithmetic-v0", "pocket", limit=12, group_size=4, settle_after=2, drop_equal=True, dropped=dropped,
            workers=2, concurrency=8, sampling={"temperature": 1.5},
        )  # fmt: skip
        return [group async for group in played]

    kept = rewards(asyncio.run(groups()))
    assert all(len(group) == 4 and len(set(group)) > 1 for group in kept.values())
    assert len(kept) + dropped["equal"] + dropped["settled"] + dropped["masked"] == 12
    assert kept


@given(st.integers(0, 2**32), st.integers(2, 6), st.booleans(), st.data())
def test_every_episode_is_asked_for_once_and_every_group_is_handed_over_or_counted(seed, size, drop_equal, data):
    rng = random.Random(seed)
    settle_after = data.draw(st.integers(2, size - 1) | st.none()) if size > 2 else None
    dropped = Counter()
    plan = open_plan("group_tests/SaysItsReward-v0", tasks=[row(str(n)) for n in range(5)], repeats=size)
    jobs = GroupJobs(plan, drop_equal=drop_equal, settle_after=settle_after, dropped=dropped)
    started, under_way, groups = [], [], []
    while True:
        for job in jobs:
            started.append(job)
            under_way.append(job)
            if rng.random() < 0.3:
                break
        if not under_way:
            break
        job = under_way.pop(rng.randrange(len(under_way)))
        jobs.finished(job, {"rollout_id": job._asdict(), "reward": rng.choice([0.0, 1.0, None])})
        while (group := jobs.take()) is not None:
            groups.append(group)
    assert len(started) == len(set(started)) == size * len(groups) + dropped["episodes"]
    assert len(groups) + dropped["equal"] + dropped["settled"] + dropped["masked"] == 5
    for group in groups:
        scored = {record["reward"] for record in group} - {None}
        assert len(group) == size and (len(scored) == 2 or not drop_equal)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"group_size": 1}, "2 or more"),
        ({"group_size": 2, "repeats": 3}, "give `limit`"),
        ({"group_size": 2, "episodes": 3}, "give `limit`"),
        ({"group_size": 2, "skip": {(0, 0)}}, "give `limit`"),
        ({"drop_equal": True}, "give `group_size`"),
        ({"group_size": 4, "settle_after": 4}, "from 2 to group_size - 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options, sentence):
    async def begin():
        async for _ in gym_llm.rollout("gym_llm/Counter-v0", "random", **options):
            break

    with pytest.raises(ValueError, match=sentence):
        asyncio.run(begin())
