"""A training in which the rewards of every group are equal says that nothing can be learned."""

from __future__ import annotations

import random

import pytest

from gym_llm.engines.constant import ConstantEngine
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.equal_rewards import EqualRewards


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "Nothing can be learned" in record.getMessage()]


def test_a_pool_s_batches_of_equal_groups_are_reported_once(caplog):
    pool = EnvPool(EnvFactory("gym_llm/Arithmetic-v0"), concurrency=64)
    try:
        for batch in range(3):
            tasks = range(batch * 8, batch * 8 + 8)
            pool.play_all([Job(task, repeat) for task in tasks for repeat in range(4)], ConstantEngine("nothing"))
    finally:
        pool.close()
    (warning,) = warnings_in(caplog)
    assert "all of the last 8 groups have equal rewards (the last one 0)" in warning


def test_groups_that_differ_are_not_warned_about(caplog):
    rewards, numbers = EqualRewards(), random.Random(0)
    for step in range(200):
        batch = [(step * 4 + group, float(numbers.random() < 0.5)) for group in range(4) for _ in range(4)]
        rewards.add_batch(batch)
        for task, reward in batch:
            rewards.add(("single", task), reward)
    assert warnings_in(caplog) == []


def test_one_group_that_differs_begins_the_count_again(caplog):
    rewards = EqualRewards()
    for task in range(7):
        rewards.add_batch([(task, 1.0)] * 2)
    rewards.add_batch([(7, 1.0), (7, 0.0)])
    for task in range(8, 15):
        rewards.add_batch([(task, 1.0)] * 2)
    assert warnings_in(caplog) == []
    rewards.add_batch([(15, 1.0)] * 2)
    assert len(warnings_in(caplog)) == 1


def test_masked_episodes_and_single_ones_are_no_group(caplog):
    rewards = EqualRewards()
    rewards.add_batch([(task, reward) for task in range(40) for reward in (1.0, None, None)])
    assert warnings_in(caplog) == []
