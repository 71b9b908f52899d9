import copy

import gymnasium as gym
import pytest
from gymnasium.error import InvalidAction
from hypothesis import given
from hypothesis import strategies as st

import gym_llm  # noqa: F401 - registers the environments
from gym_llm.protocols.responses import Response
from gym_llm.types import Item, message_text
from gym_llm.wrappers import ReasoningParser

TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
PIECES = st.sampled_from(["<think>", "</think>", "<think", "think>", " ", "\n\n", "\u2003", "`", '"', "Yes.", "\ud800"])
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join)


@pytest.fixture(scope="module")
def parser() -> ReasoningParser:
    return ReasoningParser(gym.make("gym_llm/FollowUp-v0"))


def message(*texts: str, **fields: object) -> Item:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_7", "role": "assistant", "status": "completed", "content": parts, **fields}


def thoughts(items: list[Item]) -> list[str]:
    return [item["summary"][0]["text"] for item in items if item["type"] == "reasoning"]


def written(items: list[Item]) -> str:
    """What the model wrote, from what the parser made of it."""
    text = ""
    for item in items:
        if item["type"] == "reasoning":
            text += "<think>" + item["summary"][0]["text"] + ("</think>" if item["status"] == "completed" else "")
        else:
            text += message_text([item])
    return text


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>hm</think>4", ["hm"], "4"),
        ("<think>\nhm\n</think>\n\n4\n", ["\nhm\n"], "\n\n4\n"),
        ("hm</think>4", ["hm"], "4"),
        ("\nhm\n</think>\n\n4", ["\nhm\n"], "\n\n4"),
        ("</think>4", [""], "4"),
        ("<think>hm", ["hm"], ""),
        ("<think>", [""], ""),
        ("<think></think>", [""], ""),
        ("<think>a</think>\n<think>b</think> 4", ["a", "b"], "\n 4"),
        ("a</think><think>b</think>4", ["a", "b"], "4"),
        (" \n<think>a</think>4", ["a"], " \n4"),
        ("<think>a<think>b</think>4", ["a<think>b"], "4"),
        ("<think>a</think>4 <think>b</think>", ["a"], "4 <think>b</think>"),
        ('<think>a</think>Use `<think>` and "</think>".', ["a"], 'Use `<think>` and "</think>".'),
        ("a</think></think>4", ["a"], "</think>4"),
        ("<think>I write </thinking></think>4", ["I write </thinking>"], "4"),
    ],
)
def test_thinking_becomes_reasoning_and_the_rest_the_answer(parser, text, reasoning, answer):
    items = parser.action([message(text)])
    assert thoughts(items) == reasoning
    assert message_text(items) == answer


@pytest.mark.parametrize(
    "text", ["", "4", "Sure: <think>a</think>", "In R1, write <think> first, then </think>.", "a < b, think > c"]
)
def test_a_turn_without_thinking_is_the_same_object(parser, text):
    action = [message(text)]
    assert parser.action(action)[0] is action[0]
    response = {"output": [message(text)], "status": "completed"}
    assert parser.action(response)["output"][0] is response["output"][0]


def test_untagged_actions_are_passed_on_untouched(parser):
    for action in ([message("4")], [], {"output": [message("4")]}, [message("4", content="4")]):
        assert parser.action(action) is action


def test_unclosed_think_is_all_reasoning_and_incomplete(parser):
    (item,) = parser.action([message("<think>It must be")])
    assert item["type"] == "reasoning"
    assert item["status"] == "incomplete"
    assert item["summary"] == [{"type": "summary_text", "text": "It must be"}]


def test_ids_come_from_the_message(parser):
    items = parser.action([message("\n<think>a</think>\n<think>b</think>4")])
    assert [item["id"] for item in items] == ["msg_7_1", "rs_msg_7", "msg_7_2", "rs_msg_7_1", "msg_7"]
    (bare, answer) = parser.action([{"role": "assistant", "content": "<think>a</think>4"}])
    assert (bare["id"], answer) == ("rs_0", {"role": "assistant", "content": "4"})


def test_several_text_parts_are_one_text(parser):
    reasoning, answer = parser.action([message("<think>a", "b</think>4", "5")])
    assert reasoning["summary"][0]["text"] == "ab"
    assert [part["text"] for part in answer["content"]] == ["4", "5"]


def test_parts_that_are_not_text_stay(parser):
    refusal = {"type": "refusal", "refusal": "No."}
    item = message("<think>a</think>")
    item["content"].append(refusal)
    reasoning, answer = parser.action([item])
    assert reasoning["summary"][0]["text"] == "a"
    assert answer["content"] == [refusal]


def test_later_messages_are_parsed_until_the_answer_begins(parser):
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
    items = parser.action(
        [message("<think>a</think>"), call, message("<think>b</think>4"), message("<think>c</think>")]
    )
    assert thoughts(items) == ["a", "b"]
    assert message_text(items) == "4<think>c</think>"
    assert call in items


def test_structured_reasoning_is_left_alone(parser):
    action = [{"type": "reasoning", "id": "rs_1", "summary": []}, message("Use <think>a</think>")]
    assert parser.action(action) is action


def test_other_tags(parser):
    env = ReasoningParser(parser.env, start="[THINK]", end="[/THINK]")
    assert thoughts(env.action([message("[THINK]<think>[/THINK]4")])) == ["<think>"]


@pytest.mark.parametrize(("start", "end"), [("", "</think>"), ("<think>", ""), ("#", "#")])
def test_tags_that_cannot_work_are_refused(parser, start, end):
    with pytest.raises(ValueError, match="two different tags"):
        ReasoningParser(parser.env, start=start, end=end)


def test_what_is_no_response_is_an_invalid_action(parser):
    with pytest.raises(InvalidAction):
        parser.action(4)


@pytest.mark.parametrize("text", ["<think>a</think>4", "<think>a", "a</think>", "\n<think>a</think>\n<think>b</think>"])
def test_tokens_are_on_the_last_item_only(parser, text):
    items = parser.action([message(text, **TOKENS)])
    assert TOKENS.items() <= items[-1].items()
    assert not any(item.keys() & TOKENS.keys() for item in items[:-1])


def test_a_response_object_becomes_a_dict(parser):
    output = [message("<think>a</think>4")]
    response = Response.model_validate({"id": "resp_1", "created_at": 0.0, "model": "m", "output": output})
    action = parser.action(response)
    assert action["id"] == "resp_1"
    assert thoughts(action["output"]) == ["a"]


@pytest.mark.parametrize(("status", "truncated"), [("completed", False), ("incomplete", True)])
def test_the_episode_sees_the_answer_only(parser, status, truncated):
    parser.reset(options={"task_index": 0})
    parser.step([message("<think>Jupiter</think>Jupiter")])
    action = {"output": [message("<think>Saturn")], "status": status}
    _, reward, _, was_truncated, _ = parser.step(action)
    assert parser.unwrapped.episode.answer == ""
    assert (reward, was_truncated) == (0.0, truncated)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.booleans())
def test_nothing_is_lost_and_nothing_is_changed(texts, tokens):
    env = ReasoningParser(gym.Env())
    action = [message(*texts, **(TOKENS if tokens else {}))]
    before = copy.deepcopy(action)
    items = env.action(action)
    assert action == before
    text = "".join(texts)
    assert written(items) in (text, "<think>" + text)  # the latter where the template had opened the block
    assert (TOKENS.items() <= items[-1].items()) == tokens
    assert env.action(items)[-1] == items[-1]


def test_a_million_tags_take_linear_time(parser):
    for text in ("<think></think>" * 70_000, "<think>" * 150_000, "</think>" * 130_000, " <think> </think>" * 60_000):
        assert written(parser.action([message(text)])) in (text, "<think>" + text)
