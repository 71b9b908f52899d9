"""BFCL's rules for one turn: names, required and optional parameters, types, normalised texts, any order."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest

from gym_llm.envs.bfcl.grading import matches

FUNCTION = {
    "name": "shop.price",
    "parameters": {
        "type": "dict",
        "properties": {
            "item": {"type": "string"},
            "count": {"type": "integer"},
            "weight": {"type": "float"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "box": {"type": "dict"},
            "boxes": {"type": "array", "items": {"type": "dict"}},
        },
        "required": ["item"],
    },
}
ACCEPTED: dict[str, list[Any]] = {
    "item": ["New York lamp"],
    "count": [3, ""],
    "weight": [2.0, ""],
    "tags": [["Red", "big"], ""],
    "box": [{"x": [1], "y": ["a", ""]}, ""],
    "boxes": [[{"x": [1]}, {"x": [2]}], ""],
}


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"item": "new-york LAMP"}, True),
        ({"item": "New York lamp", "count": 3, "weight": 2}, True),
        ({"item": "New York lamp", "tags": ["red", "big"]}, True),
        ({"item": "New York lamp", "box": {"x": 1}}, True),
        ({"item": "New York lamp", "boxes": [{"x": 1}, {"x": 2}]}, True),
        ({"count": 3}, False),
        ({"item": "lamp"}, False),
        ({"item": "New York lamp", "count": 3.0}, False),
        ({"item": "New York lamp", "count": "3"}, False),
        ({"item": "New York lamp", "count": True}, False),
        ({"item": "New York lamp", "colour": "red"}, False),
        ({"item": "New York lamp", "tags": ["big", "red"]}, False),
        ({"item": "New York lamp", "box": {"x": 2}}, False),
        ({"item": "New York lamp", "boxes": [{"x": 1}]}, False),
        ({"item": None}, False),
        ([], False),
        ("item", False),
    ],
)
def test_arguments(arguments: Any, right: bool) -> None:
    assert matches(arguments, ACCEPTED, FUNCTION["parameters"]) is right  # type: ignore[arg-type]


def test_a_parameter_that_may_not_be_left_out() -> None:
    assert not matches({"item": "x"}, {"item": ["x"], "count": [3]}, FUNCTION["parameters"])  # type: ignore[arg-type]


def reward(category: str, truth: list[dict[str, Any]], *calls: tuple[str, Any]) -> float:
    row = {
        "responses_create_params": {"input": "?"},
        "functions": [FUNCTION],
        "ground_truth": truth,
        "category": category,
    }
    env = gym.make("gym_llm/BFCL-v0", tasks=[row], disable_env_checker=True)
    env.reset(seed=0)
    items = [
        {"type": "function_call", "call_id": f"c{n}", "name": name, "arguments": text}
        for n, (name, text) in enumerate(calls)
    ]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "No."}]}
    return float(env.step(items or [said])[1])


def call(item: str) -> tuple[str, str]:
    return "shop_price", json.dumps({"item": item})


TWO = [{"shop.price": {"item": ["a"]}}, {"shop.price": {"item": ["b"]}}]


def test_calls() -> None:
    assert reward("parallel", TWO, call("b"), call("a")) == 1.0
    assert reward("parallel", TWO, call("a")) == 0.0
    assert reward("parallel", TWO, call("a"), call("a")) == 0.0
    assert reward("parallel", TWO, call("a"), call("b"), call("b")) == 0.0
    assert reward("simple", TWO[:1], ("shop.price", '{"item": "a"}')) == 0.0, "a tool's name has no dot"
    assert reward("irrelevance", []) == 1.0 and reward("irrelevance", [], call("a")) == 0.0
    assert reward("live_relevance", []) == 0.0 and reward("live_relevance", [], call("z")) == 1.0


@pytest.mark.parametrize(
    "text", ["not json", "[" * 5_000, '{"item": ' * 500, '{"item": "' + "x" * 1_000_000 + '"}', "1e999"]
)
def test_hostile_arguments_are_wrong(text: str) -> None:
    assert reward("simple", TWO[:1], ("shop_price", text)) == 0.0
