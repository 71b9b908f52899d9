"""Advantages: what is masked changes nothing for the others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_llm.trainers.shared.advantages import (
    EPSILON,
    group_advantages,
    reinforce_advantages,
    rloo_advantages,
    turn_advantages,
)
from gym_llm.trainers.trl import scored_only

REWARDS = st.lists(st.floats(-100, 100) | st.none(), min_size=4, max_size=4)


@given(st.lists(REWARDS, min_size=1, max_size=6), st.sampled_from(["group", "batch", "none"]))
def test_advantages_with_masks_are_those_without_the_masked_rows(groups, scale):
    values = [reward for group in groups for reward in group]
    advantages = group_advantages(values, 4, scale=scale).reshape(-1, 4)
    everything = np.array([reward for reward in values if reward is not None])
    for group, row in zip(groups, advantages, strict=True):
        scored = np.array([reward for reward in group if reward is not None])
        if scale == "batch":
            deviation = everything.std(ddof=1) + EPSILON if len(everything) > 1 else 1.0
            expected = (scored - scored.mean()) / deviation if len(scored) else scored
        else:
            expected = group_advantages(scored.tolist(), len(scored), scale=scale) if len(scored) else scored
        assert row[[reward is not None for reward in group]] == pytest.approx(expected, abs=1e-12, rel=1e-12)
        assert all(value == 0.0 for value, reward in zip(row, group, strict=True) if reward is None)


def test_the_numbers_are_the_papers():
    rewards = [1.0, 0.0, 0.0, 1.0]
    deviation = np.std(rewards, ddof=1)
    assert group_advantages(rewards, 4) == pytest.approx((np.array(rewards) - 0.5) / (deviation + EPSILON))
    assert group_advantages([3.0, math.nan, None, None], 4).tolist() == [0.0] * 4


@given(st.lists(REWARDS, min_size=1, max_size=6))
def test_each_is_compared_with_the_others_of_its_group_that_are_scored(groups):
    advantages = rloo_advantages([reward for group in groups for reward in group], 4).reshape(-1, 4)
    for group, row in zip(groups, advantages, strict=True):
        for place, reward in enumerate(group):
            others = [other for n, other in enumerate(group) if n != place and other is not None]
            expected = reward - sum(others) / len(others) if reward is not None and others else 0.0
            assert row[place] == pytest.approx(expected, abs=1e-9)


@given(st.lists(REWARDS, min_size=1, max_size=6), st.booleans())
def test_a_batch_is_whitened_without_the_masked_ones(groups, baseline):
    rewards = [reward for group in groups for reward in group]
    advantages = reinforce_advantages(rewards, 4, baseline=baseline)
    means = [np.mean([each for each in group if each is not None] or [0.0]) if baseline else 0.0 for group in groups]
    pairs = zip(groups, means, strict=True)
    left = np.array([each - mean for group, mean in pairs for each in group if each is not None])
    deviation = left.std(ddof=1) + EPSILON if len(left) > 1 else 1.0
    expected = iter((left - left.mean()) / deviation if len(left) else ())
    for reward, advantage in zip(rewards, advantages, strict=True):
        assert advantage == pytest.approx(0.0 if reward is None else next(expected), abs=1e-9)


def test_turns_of_the_same_state_are_compared_by_what_came_after():
    rewards = [[0.0, 0.0, 1.0], [0.0, 0.0], None, [0.5], [1.0, 1.0]]
    states = [["start", "door", "key"], ["start", "door"], [], ["start"], ["start", "door"]]
    alone = [["start", 1, 2], ["start", 3], [], ["start"], ["start", 4]]
    episodes = group_advantages([1.0, 0.0, None, 0.5, 2.0], 5, scale="none")
    later = {"start": [0.25, 0.0, 0.5, 1.5], "door": [0.5, 0.0, 1.0]}  # of episodes 0, 1, 3, 4 and 0, 1, 4
    options = {"discount": 0.5, "scale": "none"}
    turns = turn_advantages(rewards, states, 5, weight=2.0, **options)
    start, door = (np.array(values) - np.mean(values) for values in later.values())
    expected = [[start[0], door[0], 0.0], [start[1], door[1]], [], [start[2]], [start[3], door[2]]]
    for row, parts, episode in zip(turns, expected, episodes, strict=True):
        assert row == pytest.approx(episode + 2.0 * np.array(parts))
    plain = turn_advantages(rewards, alone, 5, weight=0.0, **options)
    assert [row.tolist() for row in plain] == [[value] * len(row) for value, row in zip(episodes, plain, strict=True)]
    twice = turn_advantages([[1.0], [0.0]] * 2, [["a"], ["a"]] * 2, 2)  # the same state in another group is another
    assert [row[0] for row in twice] == pytest.approx([*(2 * group_advantages([1.0, 0.0], 2))] * 2)


def test_turns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="Episode 1 has 1 states and 2 rewards"):
        turn_advantages([[1.0], [1.0, 2.0]], [["a"], ["a"]], 2)
    with pytest.raises(ValueError, match="discount is"):
        turn_advantages([[1.0]], [["a"]], 1, discount=1.5)
    with pytest.raises(ValueError, match="states of 1 episodes"):
        turn_advantages([[1.0], [1.0]], [["a"]], 2)
    with pytest.raises(ValueError, match="finite"):
        turn_advantages([[math.inf], [1.0]], [["a"], ["a"]], 2)
    with pytest.raises(ValueError, match="group_size is 2 or more"):
        reinforce_advantages([1.0, 2.0], baseline=True)


@pytest.mark.parametrize("arguments", [([1.0] * 3, 2), ([1.0], 0)])
def test_rewards_that_are_no_groups_are_refused(arguments):
    with pytest.raises(ValueError, match="do not divide into groups"):
        group_advantages(*arguments)
    with pytest.raises(ValueError, match="infinite"):
        group_advantages([math.inf, 1.0], 2)
    with pytest.raises(ValueError, match="scale is"):
        group_advantages([1.0], 1, scale="std")


def test_scored_only_has_no_reward_where_the_environment_has_none():
    def brevity(completions, **_):
        return [9.0] * len(completions)

    columns = {"prompts": ["a", "b"], "completions": ["x", "y"]}
    assert scored_only(brevity)(**columns, env_reward=[None, 0.0]) == [None, 9.0]
    with pytest.raises(ValueError, match="comes after"):
        scored_only(brevity)(**columns)
