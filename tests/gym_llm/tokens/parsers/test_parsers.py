"""What all parsers have in common, and the skeleton of those that take messages apart."""

import copy
import json
import random
from typing import Any

import numpy as np
import pytest
from hostile import HostileActions, deep

from gym_llm.envs.weather.env import Weather
from gym_llm.protocols.responses.actions import output_items
from gym_llm.tokens.parsers import MessageParser, Parser, make_parser
from gym_llm.tokens.parsers.parser import MAX_PIECES, Piece, Thought, Turn, WrittenCall
from gym_llm.types import Item, Request, message_text

TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
REFUSAL = {"type": "refusal", "refusal": "No."}
PLAIN = ("", "It rains.", "a < b", "{braces}", "[1, 2]")


@pytest.fixture(params=["reasoning", "tool_calls", "harmony"])
def parser(request: pytest.FixtureRequest) -> Parser:
    if request.param == "harmony":
        pytest.importorskip("openai_harmony")
    return make_parser(request.param)


def message(text: str, **fields: Any) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part], **fields}


def call(call_id: str) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def call_ids(items: list[Item]) -> list[str]:
    return [item["call_id"] for item in items if item.get("type") == "function_call"]


def test_a_turn_with_nothing_to_do_is_the_same_list(parser: Parser) -> None:
    for text in PLAIN:
        for items in ([message(text)], [message(text, content=text)], [message(text), call("a")], []):
            assert parser.parse(items, {"input": []}) is items


def test_hostile_turns_raise_nothing_change_nothing_and_keep_their_tokens(parser: Parser) -> None:
    hostile = HostileActions(Weather, seed=9)
    marks = ["<think>", "</think>", CALL, "<tool_call>", "<|channel|>analysis<|message|>Hm<|end|>", "<|message|>", "{"]
    request: Request = {"input": [call("call_1")], "tools": [{"type": "function", "name": "f"}]}
    for _ in range(300):
        items = []
        for number in range(hostile.rng.randrange(1, 4)):
            text = "".join(hostile.rng.choices([*marks, hostile.text()[:2000]], k=hostile.rng.randrange(6)))
            items.append(hostile.rng.choice([message(text, id=f"m{number}"), {"role": "assistant", "content": text}]))
        items[-1] = {**items[-1], **TOKENS}
        before = copy.deepcopy((items, request))
        parsed = parser.parse(items, request)
        assert (items, request) == before
        assert TOKENS.items() <= parsed[-1].items()
        assert not any(item.keys() & TOKENS.keys() for item in parsed[:-1])
        assert output_items(parsed) == parsed
        assert "call_1" not in call_ids(parsed)
        assert len(set(call_ids(parsed))) == len(call_ids(parsed))


def test_one_parser_serves_any_number_of_conversations_at_once() -> None:
    parser = make_parser("tool_calls")
    conversations: list[list[Item]] = [[] for _ in range(50)]
    rng = random.Random(0)
    for _ in range(500):
        said = rng.choice(conversations)
        said += parser.parse([message(CALL * rng.randrange(3))], {"input": list(said)})
    for said in conversations:
        assert call_ids(said) == [f"call_{number}" for number in range(1, len(call_ids(said)) + 1)]


def test_ids_that_the_conversation_has_are_skipped() -> None:
    request: Request = {"input": [call("call_2"), {"role": "user", "content": "Again."}, call("x")]}
    parsed = make_parser("tool_calls").parse([call("call_3"), message(CALL * 2)], request)
    assert call_ids(parsed) == ["call_3", "call_1", "call_4"]


def test_what_the_request_forbids_is_not_made() -> None:
    parser = make_parser("tool_calls")
    items = [message(f"One.{CALL}Two.{CALL}", **TOKENS)]
    (said, made, rest) = parser.parse(items, {"input": [], "parallel_tool_calls": False})
    assert [item["type"] for item in (said, made, rest)] == ["message", "function_call", "message"]
    assert TOKENS.items() <= rest.items()
    assert parser.parse(items, {"input": [], "tool_choice": "none"}) is items


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("tool_calls", "<tool_call>"),
        ("tool_calls", CALL + "\n"),
        ("tool_calls", f"So.{CALL}"),
        ("tool_calls", '{"name": "f", "parameters": {}};'),
        ("reasoning", "<think></think>"),
        ("reasoning", "<think>Hm</think> "),
    ],
)
def test_no_more_items_are_made_of_a_text_than_so_many(name: str, unit: str) -> None:
    """One megabyte of `<tool_call>` was a record of 834 MB after 32 turns."""
    items = make_parser(name).parse(
        [message(unit * 5_000)], {"input": [], "tools": [{"type": "function", "name": "f"}]}
    )
    assert len(items) <= MAX_PIECES
    written = "".join(item.get("arguments") or str(item.get("summary", "")) + message_text([item]) for item in items)
    assert written.count("Hm") == (unit * 5_000).count("Hm") and len(written) > 5_000 * len(unit) - MAX_PIECES * 80
    assert sum(len(json.dumps(item)) for item in items) < 8 * 5_000 * len(unit)


def test_a_message_of_more_pieces_stays_as_it_is() -> None:
    items = [message("a " * MAX_PIECES)]
    assert len(Words().parse(items, {"input": []})) == MAX_PIECES
    items = [message("a " * (MAX_PIECES + 1))]
    assert Words().parse(items, {"input": []}) == items


@pytest.mark.parametrize("odd", [10**5_000, deep(900), 3, None, "", object()], ids=range(6))
def test_odd_ids_are_no_matter(parser: Parser, odd: Any) -> None:
    text = "<think>Hm</think>" + f"So.{CALL}" * 2
    request: Any = {"input": [{**call("a"), "call_id": odd}], "tools": [{"type": "function", "name": odd}]}
    items = parser.parse([{**message(text), "id": odd}], request)
    assert output_items(items) == items and all("id" in item for item in items)


def test_text_of_a_subclass_of_str_is_text(parser: Parser) -> None:
    class Odd(str):
        find = strip = rstrip = isspace = startswith = encode = None

    for text in (f"<think>Hm</think>So.{CALL}", '{"name": "f", "parameters": {}}', "<|channel|>final<|message|>4"):
        request: Request = {"input": [], "tools": [{"type": "function", "name": "f"}]}
        plain = parser.parse([message(text), message("", content=text)], request)
        for kind in (Odd, np.str_):
            odd = kind(text)
            assert parser.parse([message(odd), message("", content=odd)], request) == plain


class Words(MessageParser):
    """One piece for each word."""

    PIECES: dict[str, Piece] = {"hm": Thought("hm"), "f": WrittenCall("f", "{}"), "-": "", "!": {"content": [REFUSAL]}}

    def concerns(self, text: str) -> bool:
        return " " in text

    def read(self, message: Item, text: str, turn: Turn) -> list[Piece] | None:
        return [self.PIECES.get(word, word) for word in text.split()] if " " in text else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hm yes f hm no", ["rs_m", "m", "fc_1", "rs_m_1", "m_1", "m_2"]),
        ("- -", ["m"]),
        ("hm f", ["rs_m", "fc_1", "m"]),
        ("a !", ["m", None]),  # a ready item has the refusal itself
    ],
)
def test_pieces_stand_in_the_messages_place(text: str, expected: list[str | None]) -> None:
    whole = message(text, id="m", **TOKENS)
    whole["content"].append(REFUSAL)
    untouched = message("word")
    before, *parsed, after = Words().parse([untouched, whole, untouched], {"input": []})
    assert before is after is untouched
    assert [item.get("id") for item in parsed] == expected
    assert parsed[-1]["content"] == [REFUSAL] and all(REFUSAL not in item.get("content", ()) for item in parsed[:-1])
    assert TOKENS.items() <= parsed[-1].items()
