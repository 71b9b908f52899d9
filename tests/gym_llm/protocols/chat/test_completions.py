import copy
import json
import time
import timeit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import often

from gym_llm.core.spaces import ResponseSpace
from gym_llm.errors import EngineError
from gym_llm.protocols.chat.completions import chat_to_response, response_to_chat
from gym_llm.protocols.chat.requests import chat_to_request, request_to_chat

TEXT = st.text(min_size=1) | st.sampled_from([" ", "\n\n4", "<think>\n", '{"a": 1}', "  x  ", "\ud800"])


def message(text):
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def reasoning(text):
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def call(name, arguments, call_id):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def answer(finish_reason="stop", **fields):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "served",
        "choices": [{"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def chat_call(name="f", arguments="{}", call_id="call_1"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


# Requests -----------------------------------------------------------------------------------------------------------


def test_a_conversation_becomes_messages_with_one_per_model_turn():
    request = {
        "instructions": "Be brief.",
        "input": [
            {"role": "developer", "content": "Be kind."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}], "id": None},
            {**reasoning("Two cities."), "id": "rs_1"},
            {**message("I look."), "id": "msg_1", "status": "completed"},
            {**call("get_weather", '{"city": "Rome"}', "c1"), "id": "fc_1"},
            call("get_weather", '{"city":', "c2"),
            {"type": "function_call_output", "call_id": "c1", "output": "cold", "id": None, "status": None},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "warm"}]},
            {"role": "assistant", "content": "Cold and warm."},
        ],
    }
    before = copy.deepcopy(request)
    assert request_to_chat(request)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Two cities.",
            "reasoning": "Two cities.",
            "tool_calls": [
                chat_call("get_weather", '{"city": "Rome"}', "c1"),
                chat_call("get_weather", '{"city":', "c2"),
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "cold"},
        {"role": "tool", "tool_call_id": "c2", "content": "warm"},
        {"role": "assistant", "content": "Cold and warm."},
    ]
    assert request == before


def test_a_string_is_a_user_message():
    assert request_to_chat({"input": "Hi"}) == {"messages": [{"role": "user", "content": "Hi"}]}


def test_parts_become_chat_parts():
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}
    audio = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    content = [{"type": "input_text", "text": "What?"}, image, audio]
    request = {"input": [{"role": "user", "content": content}]}
    chat = request_to_chat(request)
    assert chat["messages"][0]["content"] == [
        {"type": "text", "text": "What?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
        audio,
    ]
    assert chat_to_request(chat) == request


def test_a_video_is_converted_and_comes_back():
    video = {"type": "input_video", "video_url": "data:video/mp4;base64,AA=="}
    request = {"input": [{"role": "user", "content": [{"type": "input_text", "text": "What?"}, video]}]}
    chat = request_to_chat(request)
    shown = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AA=="}}
    assert chat["messages"][0]["content"][1] == shown
    assert chat_to_request(chat) == request
    with pytest.raises(EngineError, match="A video in a request is"):
        request_to_chat({"input": [{"role": "user", "content": [{"type": "input_video", "file_id": "f"}]}]})


def test_calls_in_a_chats_own_messages_are_kept():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
    ]
    assert request_to_chat({"input": messages})["messages"] == messages


def test_summaries_of_one_reasoning_item_stay_apart():
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]}
    chat = request_to_chat({"input": [item]})
    assert chat["messages"][0]["reasoning_content"] == "One.</think><think>Two."
    assert chat_to_request(chat)["input"] == [reasoning("One."), reasoning("Two.")]


def test_structured_tool_outputs_become_text():
    item = {"type": "function_call_output", "call_id": "c", "output": {"temperature": 3}}
    assert request_to_chat({"input": [item]})["messages"][0]["content"] == '{"temperature": 3}'


def test_hidden_reasoning_alone_is_no_message():
    request = {"input": [{"role": "user", "content": "Hi"}, {"type": "reasoning", "summary": []}]}
    assert request_to_chat(request)["messages"] == [{"role": "user", "content": "Hi"}]


def test_raw_reasoning_goes_before_its_summary():
    item = {**reasoning("short"), "content": [{"type": "reasoning_text", "text": "long"}]}
    assert request_to_chat({"input": [item]})["messages"][0]["reasoning_content"] == "long"


def test_parameters_are_renamed_and_none_is_lost():
    tool = {"type": "function", "name": "f", "description": "", "parameters": {"type": "object"}, "strict": True}
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    request = {
        "input": [],
        "model": "m",
        "tools": [tool],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_logprobs": 3,
        "max_output_tokens": 16,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", **schema}, "verbosity": "low"},
        "metadata": {"a": "b"},
        "stop": ["\n"],
        "seed": 7,
        "chat_template_kwargs": {"enable_thinking": False},
        "user": None,
    }
    assert request_to_chat(request) == {
        "messages": [],
        "tools": [{"type": "function", "function": {key: tool[key] for key in tool if key != "type"}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "logprobs": True,
        "top_logprobs": 3,
        "max_completion_tokens": 16,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": schema},
        "verbosity": "low",
        "metadata": {"a": "b"},
        "stop": ["\n"],
        "seed": 7,
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.parametrize("kind", ["text", "json_object"])
def test_simple_response_formats_are_kept(kind):
    assert request_to_chat({"input": [], "text": {"format": {"type": kind}}})["response_format"] == {"type": kind}


def test_without_tools_nothing_is_said_about_them():
    request = {"input": [], "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    assert request_to_chat(request) == {"messages": []}


@pytest.mark.parametrize(
    "request_",
    [{"input": [{"type": "web_search_call", "id": "ws_1"}]}, {"input": [], "previous_response_id": "resp_1"}],
)
def test_what_no_chat_can_say_is_an_error(request_):
    with pytest.raises(EngineError, match="Chat Completions"):
        request_to_chat(request_)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": "Hi"},
        {"messages": ["Hi"]},
        {"messages": [{"role": "robot", "content": "Hi"}]},
        {"messages": [{"role": "user", "content": ["Hi"]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
        {"messages": [{"role": "assistant", "tool_calls": [{}]}]},
        {"messages": [], "tools": ["f"]},
        {"messages": [], "response_format": {"type": "json_schema"}},
    ],
)
def test_a_wrong_chat_body_is_an_error(body):
    with pytest.raises(ValueError):
        chat_to_request(body)


def test_both_names_of_the_token_limit_are_read():
    assert chat_to_request({"messages": [], "max_tokens": 5})["max_output_tokens"] == 5
    for body in ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_completion_tokens": 6, "max_tokens": 5}):
        assert chat_to_request({"messages": [], **body})["max_output_tokens"] == 6


@st.composite
def model_turns(draw):
    """A model turn in the standard order, as a chat can say it."""
    items = [reasoning(draw(TEXT))] if draw(st.booleans()) else []
    items += [message(draw(TEXT))] if draw(st.booleans()) else []
    items += [call(draw(TEXT), draw(st.text()), f"call_{index}") for index in range(draw(st.integers(0, 3)))]
    return items or [message(draw(st.text()))]


@st.composite
def conversations(draw):
    """Turns of all the standard shapes: instructions, user messages, model turns, tool outputs."""
    texts = st.text() | st.sampled_from([" a\n", "\n"])
    items = [{"role": "system", "content": draw(texts)}] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 4))):
        items.append({"role": "user", "content": draw(texts)})
        turn = draw(model_turns())
        items += turn
        while outputs := [
            {"type": "function_call_output", "call_id": item["call_id"], "output": draw(texts)}
            for item in turn
            if item["type"] == "function_call"
        ]:
            turn = draw(model_turns())
            items += outputs + turn
            if not draw(st.booleans()):
                turn = []
    return items


@given(conversations())
@settings(max_examples=often(100, 300), deadline=None)
def test_conversations_round_trip_to_the_character(items):
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}]
    request = {"input": items, "tools": tools, "tool_choice": "auto", "temperature": 1.0, "max_output_tokens": 9}
    chat = request_to_chat(request)
    assert chat_to_request(chat) == request
    assert request_to_chat(chat_to_request(chat)) == chat


# Answers ------------------------------------------------------------------------------------------------------------


def test_an_answer_becomes_reasoning_message_and_calls_with_ids_of_its_own():
    chat = answer(
        "tool_calls",
        content="\n\nLet me look.",
        reasoning_content="hm\n",
        tool_calls=[chat_call(), chat_call("g", {"n": 1}, None)],
    )
    response = chat_to_response(chat)
    assert response == {
        "id": "resp_chatcmpl-1",
        "object": "response",
        "created_at": 1700000000.0,
        "model": "served",
        "status": "completed",
        "incomplete_details": None,
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
        "output": [
            {**reasoning("hm\n"), "id": "rs_chatcmpl-1"},
            {**message("\n\nLet me look."), "id": "msg_chatcmpl-1", "status": "completed"},
            {**call("f", "{}", "call_1"), "id": "fc_chatcmpl-1_0", "status": "completed"},
            {**call("g", '{"n": 1}', "call_chatcmpl-1_1"), "id": "fc_chatcmpl-1_1", "status": "completed"},
        ],
    }
    assert chat_to_response(chat) == response
    assert response in ResponseSpace()
    assert chat_to_response(chat, model="mine")["model"] == "mine"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"content": "4"}, [message("4")]),
        ({"content": " "}, [message(" ")]),
        ({"content": ""}, [message("")]),
        ({"content": None}, [message("")]),
        ({}, [message("")]),
        ({"content": [{"type": "text", "text": "4"}]}, [message("4")]),
        ({"content": "", "reasoning": "hm"}, [reasoning("hm")]),
        ({"content": "4", "reasoning": "hm", "reasoning_content": None}, [reasoning("hm"), message("4")]),
        ({"content": "", "tool_calls": [chat_call()]}, [call("f", "{}", "call_1")]),
        ({"content": "4", "tool_calls": None}, [message("4")]),
        ({"content": "4", "tool_calls": []}, [message("4")]),
        ({"content": None, "tool_calls": [chat_call(arguments='{"a": ')]}, [call("f", '{"a": ', "call_1")]),
    ],
)
def test_every_form_of_content_is_read(fields, expected):
    output = chat_to_response(answer(**fields))["output"]
    assert [{key: item[key] for key in item if key not in ("id", "status")} for item in output] == expected


def test_a_refusal_is_a_part_of_the_message():
    (item,) = chat_to_response(answer(content=None, refusal="No."))["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]


@pytest.mark.parametrize(
    ("finish_reason", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_a_cut_answer_is_incomplete(finish_reason, reason):
    response = chat_to_response(answer(finish_reason, content="4", reasoning_content="hm"))
    assert response["status"] == response["output"][-1]["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": reason}
    assert response_to_chat(response)["choices"][0]["finish_reason"] == finish_reason


def test_usage_details_are_kept_when_there_are_some():
    chat = answer(content="4")
    chat["usage"].update(prompt_tokens_details={"cached_tokens": 2}, completion_tokens_details={"reasoning_tokens": 1})
    usage = chat_to_response(chat)["usage"]
    assert usage["input_tokens_details"] == {"cached_tokens": 2}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 1}
    chat["usage"] = None
    assert chat_to_response(chat)["usage"] is None


@pytest.mark.parametrize("top", [True, False])
def test_token_ids_are_on_the_last_item(top):
    chat = answer("tool_calls", content="4", reasoning_content="hm", tool_calls=[chat_call()])
    choice = chat["choices"][0]
    (chat if top else choice)["prompt_token_ids"] = [1, 2]
    choice["token_ids"] = [3, 4]
    choice["logprobs"] = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.5}]}
    *others, last = chat_to_response(chat)["output"]
    assert last["prompt_token_ids"] == [1, 2]
    assert last["generation_token_ids"] == [3, 4]
    assert last["generation_log_probs"] == [-0.5, -1.5]
    assert not any("generation_token_ids" in item or "logprobs" in str(item) for item in others)
    assert chat_to_response(response_to_chat(chat_to_response(chat))) == chat_to_response(chat)


@pytest.mark.parametrize("missing", ["prompt_token_ids", "token_ids", "logprobs"])
def test_token_ids_come_all_or_none(missing):
    chat = answer(content="4")
    choice = chat["choices"][0]
    choice.update(prompt_token_ids=[1], token_ids=[3, 4], logprobs={"content": [{"logprob": -0.5}, {"logprob": -1.5}]})
    choice.pop(missing)
    (item,) = chat_to_response(chat)["output"]
    assert not {"prompt_token_ids", "generation_token_ids", "generation_log_probs"} & item.keys()


def test_log_probabilities_without_token_ids_are_those_of_the_text():
    chat = answer(content="4")
    chat["choices"][0]["logprobs"] = {"content": [{"token": "4", "logprob": -0.5, "bytes": [52], "top_logprobs": []}]}
    (item,) = chat_to_response(chat)["output"]
    assert item["content"][0]["logprobs"] == chat["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize(
    "chat",
    [
        None,
        "502 Bad Gateway",
        [],
        {},
        {"error": {"message": "overloaded"}},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": "Hi"}]},
        answer(content=4),
        answer(content=[4]),
        answer(content=[{"type": "text"}]),
        answer(tool_calls=[None]),
        answer(tool_calls=[{"id": "c", "function": {"arguments": "{}"}}]),
        answer(tool_calls=3),
        {**answer(content="4"), "created": "now"},
        {**answer(content="4"), "usage": [3]},
    ],
)
def test_a_malformed_answer_is_an_engine_error(chat):
    with pytest.raises(EngineError, match="not a chat completion"):
        chat_to_response(chat)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["content", "reasoning_content", "reasoning", "tool_calls", "refusal", "role"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), JSON, JSON, JSON)
@settings(max_examples=often(100, 300), deadline=None)
def test_any_answer_is_read_or_an_engine_error(fields, finish_reason, logprobs, usage):
    chat = answer(finish_reason, **fields)
    chat["choices"][0]["logprobs"] = logprobs
    chat["usage"] = usage
    try:
        response = chat_to_response(chat)
    except EngineError:
        return
    assert response in ResponseSpace()


@given(model_turns(), st.sampled_from([None, "max_output_tokens", "content_filter"]), st.booleans())
@settings(max_examples=often(100, 300), deadline=None)
def test_answers_round_trip_to_the_character(items, reason, tokens):
    items = [{**item, "id": "old", "status": "completed"} for item in items]
    if tokens:
        items[-1].update(prompt_token_ids=[1, 2], generation_token_ids=[3], generation_log_probs=[-0.25])
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "m",
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": items,
        "usage": {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3},
    }
    chat = response_to_chat(response)
    again = chat_to_response(chat)
    plain = [{key: item[key] for key in item if key not in ("id", "status")} for item in items]
    assert [{key: item[key] for key in item if key not in ("id", "status")} for item in again["output"]] == plain
    assert {key: again[key] for key in again if key != "output"} == {
        key: response[key] for key in response if key != "output"
    }
    assert response_to_chat(again) == chat


def test_a_whole_episode_is_no_single_answer():
    output = [call("f", "{}", "c"), {"type": "function_call_output", "call_id": "c", "output": "5"}]
    with pytest.raises(ValueError, match="function_call_output"):
        response_to_chat({"id": "resp_1", "output": output})


def test_conversions_take_microseconds():
    request = {"input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]}
    chat = answer(content="4", reasoning_content="hm")
    convert = timeit.Timer(lambda: (request_to_chat(request), chat_to_response(chat)), timer=time.thread_time)
    both = min(convert.repeat(number=500, repeat=5)) / 500  # processor time
    assert both < 100e-6  # about 6 on an idle core
    assert json.dumps(chat_to_response(chat))
