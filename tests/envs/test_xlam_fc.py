"""XlamFC: which calls fit, and how they are paired."""

import json

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message, message_item, row
from verifier_vectors import agree, vector_id, vectors_of

from gym_llm.envs.xlam_fc.env import XlamFC
from gym_llm.errors import DataError


def play(expected, *items, **kwargs):
    """(reward, info) of a turn."""
    env = gym.make("gym_llm/XlamFC-v0", **kwargs)
    env.reset(options={"task": row("Do it.", expected_answers=expected)})
    _, reward, terminated, _, info = env.step(list(items))
    assert terminated
    return reward, info


def expect(name="f", **arguments):
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize("vector", vectors_of("xlam_fc"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree(vector)


@pytest.mark.parametrize(
    ("expected", "calls", "reward"),
    [
        ([expect(a=1)], [function_call("f", {"a": 1})], 1.0),
        ([expect(a=1)], [function_call("f", {"a": 1, "b": 2})], 1.0),
        ([expect(a=1, b=2)], [function_call("f", {"a": 1})], 0.0),
        ([expect(a=1)], [function_call("g", {"a": 1})], 0.0),
        ([expect(a=1)], [function_call("f", {"a": 1.0})], 1.0),
        ([expect(a=1)], [function_call("f", {"a": "1"})], 0.0),
        ([expect(a=1)], [function_call("f", {"a": True})], 0.0),
        ([expect(a=[1, {"b": None}])], [function_call("f", {"a": [1, {"b": None}]})], 1.0),
        ([expect(a=[1])], [function_call("f", {"a": [1, 2]})], 0.0),
        ([expect("f"), expect("g")], [function_call("g"), function_call("f")], 1.0),
        ([expect("f")], [function_call("f"), function_call("f")], 0.0),
        ([expect("f"), expect("f")], [function_call("f")], 0.0),
        ([expect("f")], [function_call("f", "not JSON")], 1.0),
        ([expect("f", a=1)], [function_call("f", "not JSON")], 0.0),
        ([expect("f", a=1)], [function_call("f", ["a", 1])], 0.0),
        ([{"name": "f", "arguments": '{"a": 1}'}], [function_call("f", {"a": 1})], 1.0),
        ([], [message_item("Nothing to do.")], 1.0),
        ([], [function_call("f")], 0.0),
        ([expect("f")], [message_item("f()")], 0.0),
    ],
)
def test_the_calls_have_to_be_the_expected_ones(expected, calls, reward):
    assert play(expected, *calls)[0] == reward


def test_an_unspecific_call_does_not_take_the_one_that_another_needs():
    expected, calls = [expect(), expect(a=1)], [function_call("f", {"a": 1}), function_call("f", {"a": 2})]
    assert play(expected, *calls)[0] == 1.0
    reward, info = play(expected, *calls, conform="nemo")
    assert (reward, info["num_correct"]) == (0.0, 1)


def test_true_is_not_one_but_for_nemo_gym():
    assert play([expect(a=1)], function_call("f", {"a": True}), conform="nemo")[0] == 1.0


def test_what_was_counted_is_reported():
    _, info = play([expect("f"), expect("g")], function_call("f", {"a": 1}), function_call("h", "{"))
    assert {name: info[name] for name in ("num_expected", "num_predicted", "num_correct", "predicted_calls")} == {
        "num_expected": 2,
        "num_predicted": 2,
        "num_correct": 1,
        "predicted_calls": [{"name": "f", "arguments": {"a": 1}}, {"name": "h", "arguments": {}}],
    }


def test_calls_beyond_those_that_are_read_count_as_too_many(monkeypatch):
    monkeypatch.setenv("GYM_LLM_MAX_CALLS", "64")
    reward, info = play([expect()] * 64, *[function_call("f")] * 65)
    assert (reward, info["num_correct"], info["num_predicted"]) == (0.0, 64, 65)


def test_a_turn_ends_the_episode_and_nothing_is_run():
    env = XlamFC()
    env.reset(options={"task_index": 0})
    observation, _, terminated, _, _ = env.step([function_call("tide_table")])
    assert terminated and all(item.get("type") != "function_call_output" for item in observation["input"])


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ([{"arguments": {}}], "name"),
        ([{"name": "f", "arguments": "x"}], "valid dictionary"),
        ([{"name": "f", "arguments": "[1]"}], "valid dictionary"),
        ([expect()] * 65, "at most 64"),
    ],
)
def test_a_row_without_readable_calls_is_refused(expected, problem):
    with pytest.raises(DataError, match=problem):
        XlamFC(tasks=[row(expected_answers=expected)])


def test_many_large_and_deep_calls_cost_little():
    env = XlamFC(tasks=[row(expected_answers=[expect(a=["x"] * 10, b=n) for n in range(60)])])
    many = [function_call("f", {"a": ["x"] * 10, "b": n}) for n in range(512)]
    deep = [function_call("f", '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}") for _ in range(100)]
    large = [function_call("f", {"a": "x" * 1_000_000})]
    for calls in (many, deep, large):
        env.reset(options={"task_index": 0})
        env.episode.items.extend(calls)
        assert cpu_seconds(env.verify, env._task, env.episode) < 1.0


def test_a_message_is_no_call():
    env = XlamFC()
    env.reset(options={"task_index": 4})
    assert env.step(message("You are welcome."))[1] == 1.0


@pytest.mark.parametrize(
    ("arguments", "here", "nemo"),
    [
        (json.dumps(json.dumps({"a": 1})), 0.0, 1.0),
        ('{"a": 1, "b": NaN}', 0.0, 1.0),
        ('{"a": 1, "b": 1e999}', 0.0, 1.0),
        ('{"a": NaN}', 0.0, 0.0),
        (json.dumps("a"), 0.0, 0.0),
        ('"' * 3, 0.0, 0.0),
    ],
)
def test_what_only_pythons_json_reads_counts_as_nemo_gym_reads_it(arguments, here, nemo):
    call = function_call("f", arguments)
    assert (play([expect(a=1)], call)[0], play([expect(a=1)], call, conform="nemo")[0]) == (here, nemo)


@pytest.mark.parametrize(
    ("text", "reward"), [("There is nothing to call.", 1.0), ("", 0.0), ("[f(a=1)]", 0.0), ("[TOOL_CALLS][{}]", 0.0)]
)
def test_where_no_call_is_expected_an_empty_answer_and_an_unread_call_earn_nothing(text, reward):
    assert play([], message_item(text))[0] == reward
    assert play([], message_item(text), conform="nemo")[0] == 1.0
