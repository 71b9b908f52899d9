"""Calls are read whatever they hold, compared as JSON, and paired so that as many as possible fit."""

import pickle
from itertools import permutations
from random import Random

import pytest
from pydantic import TypeAdapter, ValidationError
from testing import cpu_seconds, function_call, message_item

from gym_llm.grading.call_matching import (
    MOST_EXPECTED,
    NOT_JSON,
    ExpectedAction,
    candidates,
    difference,
    first_fit,
    json_equal,
    largest_matching,
    parse_arguments,
    read_calls,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        ('{"a": "\\ud800", "b": -1, "c": 0.5}', {"a": "\ud800", "b": -1, "c": 0.5}),
        ('{"a": "\ud800"}', {"a": "\ud800"}),
        ("100000000000000000000", 1e20),
        ('["\\ud800", 100000000000000000000]', ["\ud800", 1e20]),
        ("null", None),
        ("", NOT_JSON),
        ("{'a': 1}", NOT_JSON),
        ("[NaN]", NOT_JSON),
        ('["\\ud800", Infinity]', NOT_JSON),
        ("[1e999]", NOT_JSON),
        ("9" * 4_000, NOT_JSON),
        ("[" * 100_000, NOT_JSON),
        ("[" * 5_000 + "]" * 5_000, NOT_JSON),
    ],
)
def test_arguments_are_json_or_marked(text, value):
    assert parse_arguments(text) == value


def test_the_mark_stays_the_same_object_in_other_processes():
    assert pickle.loads(pickle.dumps(NOT_JSON)) is NOT_JSON


def test_calls_are_read_in_order_and_other_items_passed_over():
    items = [function_call("a", {"x": 1}), message_item("hm"), function_call("b", "oops")]
    assert read_calls(items) == [("a", {"x": 1}), ("b", NOT_JSON)]


def test_calls_and_values_beyond_the_limits_of_a_turn_do_not_count(monkeypatch):
    monkeypatch.setenv("GYM_LLM_MAX_CALLS", "70")
    monkeypatch.setenv("GYM_LLM_MAX_VALUES", "1000")
    assert len(read_calls([function_call("a")] * 71)) == 70
    many = function_call("a", list(range(900)))
    first, second, third = read_calls([many, many, function_call("b", {"x": 1})])
    assert len(first.arguments) == 900 and second.arguments is NOT_JSON and third.arguments == {"x": 1}


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        (True, True, True),
        ("5", 5, False),
        (None, None, True),
        (None, False, False),
        ([1, [2]], [1, [2]], True),
        ([1, [2]], [1, [True]], False),
        ([1], [1, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, ["a"], False),
        ({}, [], False),
    ],
)
def test_json_values_are_equal_as_json(expected, actual, same):
    assert json_equal(expected, actual) is same
    assert json_equal({"x": [expected]}, {"x": [actual]}) is same


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"a": True}, None),
        ({"a": 1.0}, {"a": 1}, "type"),
        ({"a": 1}, [1], "type"),
        ({"a": 1, "b": "x"}, {"a": 2, "b": 3}, "value"),
        ({"a": [1, 2]}, {"a": [1]}, "length"),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, "keys"),
    ],
)
def test_the_first_difference_has_a_kind(expected, actual, kind):
    assert difference(expected, actual, lambda one, other: one == other) == kind


def test_values_deeper_than_the_stack_differ_instead_of_raising():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert difference(deep, deep, lambda one, other: one == other) == "value"


def largest_by_trying(edges):
    """The size of a largest matching, found by trying every order."""
    best = 0
    for order in permutations(range(len(edges))):
        best = max(best, len(first_fit([edges[index] for index in order])))
    return best


def test_a_matching_is_as_large_as_any():
    random = Random(5)
    for _ in range(300):
        expected, actual = random.randrange(1, 6), random.randrange(1, 6)
        edges = [[index for index in range(actual) if random.random() < 0.4] for _ in range(expected)]
        pairs = largest_matching(edges)
        assert all(other in edges[one] for other, one in pairs.items())
        assert len(set(pairs.values())) == len(pairs) >= largest_by_trying(edges)


def test_first_fit_may_take_the_call_that_a_later_one_needs():
    edges = [[0, 1], [0]]
    assert len(first_fit(edges)) == 1 and len(largest_matching(edges)) == 2


def test_very_many_calls_are_paired_quickly():
    def pair():
        edges = candidates([1] * MOST_EXPECTED, list(range(512)), lambda one, other: other < 60)
        assert len(largest_matching(edges)) == 60

    assert cpu_seconds(pair) < 1.0


def test_an_expected_action_is_said_in_one_of_three_ways():
    read = TypeAdapter(ExpectedAction).validate_python
    assert read({"type": "message", "content": ""}).content == ""
    batch = read({"type": "function_call_batch", "calls": [{"type": "function_call", "name": "f", "arguments": "{}"}]})
    assert [call.name for call in batch.calls] == ["f"]
    for wrong in (
        {"type": "call"},
        {"type": "function_call_batch", "calls": []},
        {"type": "function_call", "name": "f", "arguments": "x=1"},
    ):
        with pytest.raises(ValidationError):
            read(wrong)
