"""ToolCallMultiReward: each component alone."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message_item, outputs, row
from verifier_vectors import agree, vector_id, vectors_of

from gym_llm.envs.tool_call_multireward.env import ToolCallMultiReward
from gym_llm.errors import DataError

PARIS = {"name": "get_weather", "arguments": {"city": "Paris"}}
CALL = function_call("get_weather", {"city": "Paris"})


def play(*turns, expected=PARIS, **kwargs):
    """(reward, info) of an episode."""
    env = gym.make("gym_llm/ToolCallMultiReward-v0", **kwargs)
    env.reset(options={"task": row("Paris?", expected_call=expected)})
    for items in turns:
        _, reward, terminated, _, info = env.step(items)
    assert terminated
    return reward, info


def components(*items, **kwargs):
    """(correctness, schema_valid, format) of a single turn."""
    reward, info = play(list(items), single_turn=True, **kwargs)
    assert info["reward_components"] == {name: info[name] for name in ("correctness", "schema_valid", "format")}
    assert reward == sum(info["reward_components"].values())
    return tuple(info["reward_components"].values())


@pytest.mark.parametrize("vector", vectors_of("example_tool_call_multireward"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree(vector)


@pytest.mark.parametrize(
    ("items", "scores"),
    [
        ([CALL], (1, 1, 1)),
        ([{"type": "reasoning", "summary": []}, CALL], (1, 1, 1)),
        ([function_call("get_weather", {"city": "Rome"})], (0, 1, 1)),
        ([function_call("get_weather", {"city": "Paris", "unit": "C"})], (1, 1, 1)),
        ([function_call("get_weather", {"town": "Paris"})], (0, 0, 1)),
        ([function_call("get_weather", "Paris")], (0, 0, 1)),
        ([function_call("get_weather", ["city"])], (0, 0, 1)),
        ([function_call("look_up", {"city": "Paris"})], (0, 1, 1)),
        ([CALL, CALL], (1, 1, 0)),
        ([function_call("get_weather", "{"), CALL], (1, 0, 0)),
        ([message_item("I look."), CALL], (1, 1, 0)),
        ([message_item("It is sunny.")], (0, 0, 0)),
    ],
)
def test_each_component_is_scored_alone(items, scores):
    assert components(*items) == scores


def test_without_an_expected_call_none_is_correct():
    assert components(CALL, expected={}) == (0, 1, 1)


def test_the_tool_answers_and_the_message_that_follows_costs_the_format():
    env = gym.make("gym_llm/ToolCallMultiReward-v0")
    env.reset(options={"task": row("Paris?", expected_call=PARIS)})
    observation = env.step([CALL])[0]
    assert outputs(observation) == ['{"city":"Paris","weather_description":"The weather in Paris is sunny."}']
    _, reward, terminated, _, info = env.step([message_item("It is sunny.")])
    assert (reward, terminated, info["format"]) == (2.0, True, 0.0)
    assert info["predicted_calls"] == [PARIS]


def test_arguments_are_reported_as_they_were_read():
    _, info = play([function_call("get_weather", "{"), CALL], single_turn=True)
    assert info["predicted_calls"] == [{"name": "get_weather", "arguments": {}}, PARIS]


def test_what_a_tool_requires_is_read_from_the_request():
    tools = [{"type": "function", "name": "look_up", "parameters": {"type": "object", "required": ["day"]}}]
    env = ToolCallMultiReward(single_turn=True)
    task = {"responses_create_params": {"input": "?", "tools": tools}, "expected_call": PARIS}
    for arguments, valid in (({"day": 1}, 1.0), ({}, 0.0)):
        env.reset(options={"task": task})
        assert env.step([function_call("look_up", arguments)])[4]["schema_valid"] == valid


def test_wrong_arguments_and_rows_are_refused():
    with pytest.raises(ValueError, match="single_turn"):
        ToolCallMultiReward(single_turn=1)
    with pytest.raises(DataError, match="expected_call"):
        ToolCallMultiReward(tasks=[row(expected_call={"arguments": {}})])


def test_large_and_deep_arguments_cost_little():
    env = ToolCallMultiReward()
    for text in (
        '{"city": "' + "x" * 1_000_000 + '"}',
        '{"city": ' + "[" * 100_000,
        '{"city": [' + "1," * 300_000 + "1]}",
    ):
        env.reset(options={"task_index": 0})
        env.episode.items.extend([function_call("get_weather", text)] * 3)
        assert cpu_seconds(env.verify, env._task, env.episode) < 1.0


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "9" * 5_000])
def test_nemo_gym_reads_the_arguments_that_python_reads(value):
    call = function_call("get_weather", f'{{"city": "Paris", "zz": {value}}}')
    assert components(call) == (0.0, 0.0, 1.0)
    assert components(call, conform="nemo") == ((0.0, 0.0, 1.0) if value.startswith("9") else (1.0, 1.0, 1.0))
