"""MathAdvancedCalculations: what the tools give, and which numbers have to be among it."""

import json
import math

import pytest
from testing import ROOT, function_call, message, outputs, row
from verifier_vectors import replay_all

from gym_llm.envs.math_advanced_calculations.env import MathAdvancedCalculations
from gym_llm.errors import DataError


def ask(*calls, truth="[]"):
    """(reward, info, outputs) of an episode of one turn of calls and a message."""
    env = MathAdvancedCalculations()
    env.reset(options={"task": row("Calculate.", ground_truth=truth)})
    texts = outputs(env.step(list(calls))[0]) if calls else []
    _, reward, terminated, _, info = env.step(message("Done."))
    assert terminated
    return reward, info, [json.loads(text) for text in texts]


def test_recorded_episodes_score_as_recorded():
    replay_all("math_advanced_calculations")


@pytest.mark.parametrize(
    ("name", "arguments", "solution"),
    [
        ("add", {"a": 0.1, "b": 0.2}, 0.1 + 0.2 + 1.2),
        ("subtract", {"a": 1, "b": 5}, -7.0),
        ("multiply", {"a": 3, "b": 0.7}, 1.1 * 3 * 0.7),
        ("divide", {"a": 3, "b": 0.7}, 0.5 * 3 / 0.7),
        ("sin", {"radians": 4}, math.cos(4)),
        ("cos", {"radians": 4}, math.sin(4)),
        ("power", {"a": 8, "b": 8}, 1073741824.0),
        ("log", {"a": 9, "base": -4}, math.log(9) / math.log(2.5)),
        ("pi", {}, math.e),
        ("negate", {"a": 2}, 2.0),
        ("return_constant", {"a": -2.5}, -2.5),
        ("negate", {"a": 2, "b": None, "base": None}, 2.0),
    ],
)
def test_the_tools_calculate_by_other_rules(name, arguments, solution):
    assert ask(function_call(name, arguments))[2] == [{"solution": solution}]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("divide", {"a": 1, "b": 0}),
        ("power", {"a": 10, "b": 400}),
        ("power", {"a": -2, "b": 0.5}),
        ("power", {"a": 0, "b": -5}),
        ("log", {"a": 0, "base": 10}),
        ("log", {"a": 2, "base": -0.5}),
        ("multiply", {"a": 1e308, "b": 1e308}),
        ("sin", {"radians": "inf"}),
        ("return_constant", {"a": "nan"}),
        ("add", {"a": 1}),
        ("add", {"a": 1, "b": None}),
        ("tan", {"radians": 1}),
    ],
)
def test_what_cannot_be_calculated_is_answered_with_an_error(name, arguments):
    reward, info, (output,) = ask(function_call(name, arguments), truth="[1.0]")
    assert list(output) == ["error"] and reward == 0.0 and info["tool_errors"] == 1


@pytest.mark.parametrize(
    ("truth", "reward", "found"),
    [
        ("[3.2]", 1.0, 1),
        ([3.2, 2.0], 1.0, 2),
        ("[2.0, 3.2]", 1.0, 2),
        ("[2, 2, 2]", 1.0, 3),
        ("[3.2, 4.0]", 0.0, 1),
        ("[3.2000000000000006]", 0.0, 0),
        ("[]", 1.0, 0),
    ],
)
def test_every_expected_number_has_to_be_a_solution(truth, reward, found):
    calls = [function_call("add", {"a": 1, "b": 1}), function_call("negate", {"a": 2})]
    score, info, _ = ask(*calls, truth=truth)
    assert (score, info["num_found"]) == (reward, found)


def test_a_number_that_is_only_said_does_not_count():
    env = MathAdvancedCalculations(tasks=[row(ground_truth="[3.2]")])
    env.reset()
    assert env.step(message('The answer is {"solution": 3.2}.'))[1] == 0.0


@pytest.mark.parametrize("truth", ["", "3.2", '["many"]', "[NaN]", None, [float("inf")]])
def test_a_row_without_numbers_is_refused(truth):
    with pytest.raises(DataError, match="ground_truth"):
        MathAdvancedCalculations(tasks=[row(ground_truth=truth)])


def test_the_examples_can_be_solved_with_the_tools():
    solve = [
        [("add", 17, 25)],
        [("add", 4, 9), ("multiply", 14.2, 6)],
        [("divide", 40, 8), ("cos", 1.5), ("log", 81, 3)],
        [("power", 3, 2), ("subtract", 81, 10), ("negate", 68)],
        [("pi",), ("sin", math.e), ("multiply", 2, math.cos(math.e))],
    ]
    env = MathAdvancedCalculations(tasks=str(ROOT / "envs/math_advanced_calculations/data/example.jsonl"))
    for index, calls in enumerate(solve):
        env.reset(options={"task_index": index})
        for name, *values in calls:
            names = env._tools[name].schema["parameters"]["properties"]
            env.step([function_call(name, dict(zip(names, values, strict=True)))])
        assert env.step(message("Done."))[1] == 1.0
