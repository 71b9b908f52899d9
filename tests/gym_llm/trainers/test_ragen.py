"""RAGEN's loop over our environments, as its `es_manager` has it: groups by seed, several actions, copies."""

import pickle

import pytest
from gymnasium.error import ResetNeeded

from gym_llm.trainers.ragen import RagenConfig, RagenEnv

WEATHER = RagenConfig("gym_llm/Weather-v0", limit=4)
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lima"}}\n</tool_call>'


@pytest.fixture
def env():
    made = RagenEnv(WEATHER)
    yield made
    made.close()


def test_a_seed_is_a_task_and_a_group_plays_the_same(env):
    other = RagenEnv(WEATHER)
    first = env.reset(seed=5, mode="train")
    assert first == env.render() == other.reset(seed=5, mode="val")
    assert "get_weather" in first and "<tools>" in first
    assert len({env.reset(seed=seed, mode="train") for seed in range(8)}) == 4
    other.close()


def test_a_turn_with_a_tool_and_the_end(env):
    env.reset(seed=0, mode="train")
    state, reward, done, info = env.step(CALL)
    assert "<tool_response>" in state and state == env.render() and (reward, done) == (0.0, False)
    assert info["action_is_valid"] and not info["success"]
    state, reward, done, info = env.step("It is cold.")
    assert done and state == "" and reward in (0.0, 1.0) and info["success"] is (reward == 1.0)
    assert {"turn", "tool_errors"} <= info.keys()


def test_a_copy_from_another_process_goes_on_where_the_episode_was(env):
    env.reset(seed=1, mode="train")
    after_call = env.step(CALL)
    copy = pickle.loads(pickle.dumps(env))
    assert copy.render() == after_call[0]
    assert copy.step("It is warm.") == env.step("It is warm.")
    again = pickle.loads(pickle.dumps(copy))
    assert again.reset(seed=1) == env.reset(seed=1)
    for each in (copy, again):
        each.close()


def test_a_step_before_reset_is_refused(env):
    with pytest.raises(ResetNeeded, match="Call reset before step"):
        env.step("x")
