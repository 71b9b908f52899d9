"""BFCL's rules for one turn: names, required and optional parameters, types, normalised texts, any order."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, scored

from gym_llm.envs.bfcl.grading import matches
from gym_llm.grading.unread_calls import parser_for

ENV_ID = "gym_llm/BFCL-v0"

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


@pytest.mark.parametrize(
    ("text", "parser"),
    [
        ("[shop.price(item='a')]", "pythonic"),
        ("shop_price(item='a')", "pythonic"),
        ("[f(x=1), g(y=2)]", "pythonic"),
        ("```python\nshop.price(item='a')\n```", "pythonic"),
        ("Sure:\nshop_price(item='a')\nDone.", "pythonic"),
        ("```tool_code\nprint(shop_price(item='a'))\n```", "pythonic"),
        ('functions.shop_price({"item": 1})', "pythonic"),
        ("shop_price()", "pythonic"),
        ("x = shop_price(item='a')", "pythonic"),
        ('```json\n{"name": "shop_price", "arguments": {"item": "a"}}\n```', "llama3_json"),
        ('{"name": "shop.price", "parameters": {}}', "llama3_json"),
        ('Now [{"name": "f", "arguments": {}}]', "llama3_json"),
        ('{"tool": "shop_price", "args": {"item": 1}}', "llama3_json"),
        ('{"shop_price": {"item": "a"}}', "llama3_json"),
        ('{"type": "function", "function": {"name": "shop_price", "arguments": "{}"}}', "llama3_json"),
        ('{"tool": "shop_price", "item": "a"}', "llama3_json"),
        ('{"tool_calls": [{"function": {"name": "shop_price", "arguments": "{}"}}]}', "llama3_json"),
        ("{'name': 'shop_price', 'arguments': {'item': None}}", "llama3_json"),
        ("I call it: shop_price(item='a')", "pythonic"),
        ("<execute>shop_price(item='a')</execute>", "pythonic"),
        ("Call: `await shop_price(item='a')`", "pythonic"),
        ("- name: shop_price\n  arguments:\n    item: a", ""),
        ('Tool: shop_price\nInput: {"item": "a"}', ""),
        ("Tools: shop_price and others", None),
        ("<|tool▁calls▁begin|>shop_price", "deepseek_v3"),
        ("✿FUNCTION✿: shop_price", ""),
        ('{"name": "shop_price", "description": "prices"}', None),
        ("{'a', 'b'}", None),
        ('[TOOL_CALLS][{"name": "f"}]', "mistral"),
        ("<|python_tag|>f()", "llama3_json"),
        ("<function=shop_price><parameter=item>a</parameter></function>", "qwen3_coder"),
        ('<invoke name="shop_price"></invoke>', "minimax_m2"),
        ("<tool_call>shop_price<arg_key>item</arg_key>", "glm45"),
        ("<tool_call>\n{broken", "hermes"),
        ("<|tool_call_start|>[f(x=1)]", "lfm2"),
        ("<|python_start|>[f(x=1)]", "llama4_pythonic"),
        ('<｜DSML｜invoke name="f">', "deepseek_v32"),
        ("So I call it: [shop.price(item='a')]", "pythonic"),
        ("<｜tool▁calls▁begin｜>function<｜tool▁sep｜>f", "deepseek_v3"),
        ("<|tool_calls_section_begin|>", "kimi_k2"),
        ("<|channel|>commentary to=functions.f<|message|>{}", "openai"),
        ("Action: shop_price\nAction Input: {}", ""),
        ("<shop_price><item>a</item></shop_price>", ""),
        ("<tool>shop_price</tool><args>{}</args>", ""),
        ('<function name="shop_price"><param name="item">a</param></function>', ""),
        ('shop_price {"item": "a"}', ""),
        ("None of these functions fits.", None),
        ("", None),
        ("\u200b", None),
        ("I need the item.", None),
        ("I cannot: shop_price(item) has the price of an item.", None),
        ("There are:\n- `shop_price(item)`", None),
        ('{"answer": "none", "parameters": 3}', None),
        ("[1] See (a).", None),
        ('{"name": "Ada", "input": 1}', None),
        ("Like so:\n```python\nprint(len('a'))\n```", None),
        ("- shop_price: prices (in EUR)", None),
        ("`shop.price`", None),
        ("The price (of shop.price) is 3", None),
    ],
)
def test_call_like_text_is_no_abstention_and_names_a_parser(text: str, parser: str | None) -> None:
    assert parser_for(text, {"shop.price", "shop_price"}) == parser
    reward, info = scored(ENV_ID, text, {}, functions=[FUNCTION], category="live_irrelevance")
    assert (reward, info["unread_calls"]) == (
        float(parser is None and text not in ("", "\u200b")),
        int(parser is not None),
    )


@pytest.mark.parametrize(
    ("name", "value", "accepted", "right"),
    [
        ("count", None, [None, ""], True),
        ("count", None, [3, None], True),
        ("count", None, [3, ""], False),
        ("tags", None, [None], True),
        ("tags", [], [["a"], ""], True),
        ("tags", [], ["", ["a"]], True),
        ("tags", [], [["a"]], False),
        ("boxes", [], [[{"x": [1]}], ""], True),
        ("boxes", [], [[{"x": [1]}]], False),
        ("tags", [None], [[None]], True),
        ("tags", ["a", None], [["a", None]], True),
        ("tags", [None], [["a"]], False),
        ("box", {"x": None}, [{"x": [None]}], True),
        ("box", {}, [{"x": [1]}, ""], False),
        ("tags", [], [[], "x"], True),
    ],
)
def test_null_and_empty_lists_count_where_they_are_accepted(name: str, value: Any, accepted: Any, right: bool) -> None:
    arguments, wanted = {"item": "a", name: value}, {"item": ["a"], name: accepted}
    assert matches(arguments, wanted, FUNCTION["parameters"]) == right  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", ["[", "f(", "{", '{"name":', "shop_price(", "(1)", "Action: ", "<", "\n- "])
def test_hostile_texts_take_linear_time(piece: str) -> None:
    assert cpu_seconds(lambda: parser_for(piece * (1_000_000 // len(piece)), {"shop_price"})) < 2
