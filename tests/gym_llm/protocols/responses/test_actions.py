from __future__ import annotations

from typing import get_args

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import InvalidAction
from openai.types.responses import Response, ResponseOutputItem
from testing import function_call, message, message_item, response

from gym_llm.protocols.responses.actions import _KNOWN_TYPES, output_items, read_action, with_output

ITEM = message_item("4")
OPENAI = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def openai_response(text: str) -> Response:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    return Response.model_validate(response(item, **OPENAI))


@pytest.mark.parametrize("action", [[ITEM], (ITEM,), {"output": [ITEM]}, {"output": (ITEM,)}, response(ITEM)])
def test_every_form_of_an_answer_has_the_same_items(action: object) -> None:
    assert output_items(action) == [ITEM]


def test_dict_items_are_not_copied() -> None:
    assert output_items([ITEM])[0] is ITEM
    assert output_items(response(ITEM))[0] is ITEM


def test_the_openai_packages_response_is_an_answer() -> None:
    answer = openai_response("4")
    items, fields = read_action(answer)
    assert items[0]["content"][0]["text"] == "4" and fields["id"] == "resp_1"
    assert output_items(answer.output) == items
    env = gym.make("gym_llm/FollowUp-v0")
    env.reset(seed=0)
    assert env.step(answer)[0]["input"][-2]["content"][0]["text"] == "4"


def test_a_bare_list_says_nothing_about_its_response() -> None:
    assert read_action([ITEM])[1] == read_action((ITEM,))[1] == {}


def test_a_turn_that_says_nothing_is_an_answer() -> None:
    assert output_items([]) == output_items({"output": []}) == []


@pytest.mark.parametrize(
    "item",
    [
        {"role": "assistant", "content": "4"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "reasoning", "summary": []},
        {"type": "of_tomorrow", "anything": 1},
        function_call("f", "not JSON"),
    ],
)
def test_what_a_model_may_say_is_taken_as_it_is(item: dict) -> None:
    assert output_items([item]) == [item]


@pytest.mark.parametrize(
    "action, words",
    [
        ("4", "TextAction"),
        (None, "NoneType"),
        (4, "int"),
        (b"4", "bytes"),
        ({}, "without `output`"),
        (ITEM, "goes into a list"),
        ({"output": "4"}, "`output` is a str"),
        ({"output": None}, "NoneType"),
        (["4"], "got str"),
        ([ITEM, None], "got NoneType"),
        ([{}], "Item 0 .* no `type`"),
        ([ITEM, {"type": 3}], "Item 1 .* no `type`"),
        ([{"type": "message", "role": "user", "content": "4"}], "role 'user'"),
        ([{"type": "message", "role": {"a": 1}, "content": "4"}], "role of type dict"),
        ([{"type": "message", "role": "assistant", "content": None}], "`content`"),
        ([{"type": "message", "role": "assistant", "content": ["4"]}], "part of type str"),
        ([{"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}], "`text` is not a str"),
        ([{**function_call("f"), "arguments": {}}], "`arguments` is not a str"),
        ([{"type": "function_call", "name": "f", "arguments": "{}"}], "`call_id` is not a str"),
        ([{"type": "function_call_output", "call_id": "c", "output": "x"}], "of a finished conversation step once"),
        (response(ITEM, status=[]), "`status` is a list"),
        (response(ITEM, usage="many"), "`usage` is a str"),
        (Response, "Response"),
    ],
    ids=repr,
)
def test_anything_else_is_refused_with_one_sentence(action: object, words: str) -> None:
    with pytest.raises(InvalidAction, match=words) as caught:
        read_action(action)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_with_output_keeps_the_form_and_changes_nothing() -> None:
    new = message("5")
    whole = response(ITEM)
    assert with_output(whole, new) == response(*new) and whole == response(ITEM)
    assert with_output([ITEM], new) == with_output((ITEM,), new) == new
    assert with_output(openai_response("4"), new)["output"] == new


def test_an_unknown_type_that_is_nearly_a_known_one_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_llm.protocols.responses.actions._compared", set())
    item = {"type": "mesage", "role": "assistant", "content": "4"}
    with pytest.warns(UserWarning, match="'mesage'.*Did you mean 'message'") as warned:
        for _ in range(3):
            assert output_items([item]) == [item]
    assert len(warned) == 1


def test_other_types_are_nobodys_mistake(recwarn: pytest.WarningsRecorder) -> None:
    for kind in ("reasoning", "web_search_call", "our_own_thing", "mesage" * 1_000_000, "", "\ud800"):
        output_items([{"type": kind}])
    assert not recwarn.list


def test_thousands_of_other_types_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_llm.protocols.responses.actions._compared", set())
    compared: list[str] = []
    monkeypatch.setattr(
        "gym_llm.protocols.responses.actions.nearest", lambda kind, known, cutoff: compared.append(kind)
    )
    output_items([{"type": f"t{number}"} for number in range(4_000)])
    assert len(compared) == 500


def test_all_types_that_openai_has_are_known() -> None:
    def types(union: object) -> set[str]:
        fields = getattr(union, "model_fields", None)
        if fields is not None:
            return set(get_args(fields["type"].annotation))
        return {name for member in get_args(union) for name in types(member)}

    assert {"message", "reasoning", "mcp_call"} <= types(ResponseOutputItem) <= _KNOWN_TYPES


@pytest.mark.parametrize("item", [ITEM, {"type": "reasoning"}, {"type": "x"}, function_call("f")])
def test_a_role_that_cannot_be_compared_is_refused(item: dict) -> None:
    """`role == "user"` has no truth where it is an array."""
    with pytest.raises(InvalidAction, match="role"):
        read_action([{**item, "role": np.zeros(2)}])
