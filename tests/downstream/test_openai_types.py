"""Our dicts and models are the `openai` package's, and its objects are ours."""

import json

import pytest
from openai.types.responses import EasyInputMessageParam, ResponseOutputItem
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from gym_llm.core.spaces import RequestSpace, ResponseSpace
from gym_llm.protocols.chat.completions import chat_to_response, response_to_chat
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.protocols.responses import Response, ResponseCreateParams
from gym_llm.protocols.responses.actions import output_items

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": " hm\n"}]}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "4", "annotations": [], "logprobs": None}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city": "Kyoto"}',
    "status": "completed",
}
UNKNOWN = {"zeta": [1.5, None], "type": "teleport_call", "id": "tp_1", "where": {"b": 1, "a": 2}}
TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3, 4], "generation_log_probs": [-0.1, -0.25]}
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def ours(*output):
    return Response.model_validate(
        {"id": "resp_1", "created_at": 1.0, "model": "m", "output": list(output), "usage": USAGE, "user": "u"}
    )


@pytest.mark.parametrize("item", [REASONING, MESSAGE, CALL, {**CALL, **TOKENS}, {**REASONING, **TOKENS}])
def test_ours_is_an_openai_response_and_back(item):
    theirs = OpenAIResponse.model_validate(ours(item).to_dict())
    assert type(theirs.output[0]) is type(TypeAdapter(ResponseOutputItem).validate_python(item))
    assert theirs.to_dict()["output"] == [item]
    assert Response.model_validate(theirs.to_dict()).to_dict() == ours(item).to_dict()


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # openai's own models do not know the item
def test_unknown_items_survive_the_way_the_openai_client_reads_answers():
    theirs = OpenAIResponse.construct(**ours(UNKNOWN, MESSAGE).to_dict())
    back = Response.model_validate(theirs.to_dict()).to_dict()
    assert back["output"] == [UNKNOWN, MESSAGE]


@pytest.mark.parametrize("make", [lambda dump: OpenAIResponse.construct(**dump), Response.model_validate])
def test_response_objects_are_actions(make):
    action = make(ours(REASONING, MESSAGE, CALL).to_dict())
    assert action in ResponseSpace()
    assert action.output in ResponseSpace()
    assert output_items(action) == output_items(action.output) == [REASONING, MESSAGE, CALL]
    (jsonable,) = ResponseSpace().to_jsonable([action])
    assert json.loads(json.dumps(jsonable))["output"] == [REASONING, MESSAGE, CALL]


def test_sampled_responses_read_as_openai_responses():
    sample = ResponseSpace(seed=0).sample()
    theirs = OpenAIResponse.model_validate(Response.model_validate(sample).to_dict())
    assert theirs.output_text == sample["output"][0]["content"][0]["text"]


def test_requests_are_openai_request_parameters():
    adapter = TypeAdapter(ResponseCreateParamsNonStreaming)
    space = RequestSpace(seed=0)
    for _ in range(20):
        request = space.sample()
        adapter.validate_python({"model": "m", **request})
        assert ResponseCreateParams.model_validate(request).to_dict() == request


def test_openai_parameters_are_requests():
    message = EasyInputMessageParam(role="user", content=[{"type": "input_text", "text": "Hi"}])
    params = {
        "model": "m",
        "input": [message, OpenAIResponse.construct(**ours(CALL).to_dict()).output[0].to_dict()],
        "tools": [{"type": "web_search", "filters": {"allowed_domains": ["a.org"]}}],
        "tool_choice": "required",
        "reasoning": {"effort": "low"},
        "store": False,
    }
    assert ResponseCreateParams.model_validate(params).to_dict() == params
    assert params in RequestSpace()


def test_chat_bodies_are_openai_chat_types():
    from openai.types.chat import ChatCompletion
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    request = {
        "instructions": "Be brief.",
        "input": [
            {"role": "developer", "content": "Now."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
                ],
            },
            MESSAGE,
            CALL,
            {"type": "function_call_output", "call_id": "call_1", "output": "cold"},
        ],
        "tools": [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": True}],
        "tool_choice": {"type": "function", "name": "get_weather"},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}, "verbosity": "low"},
        "max_output_tokens": 9,
        "top_logprobs": 2,
    }
    body = {"model": "m", **request_to_chat(request)}
    seen = TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(body)
    assert seen.keys() == body.keys()

    chat = response_to_chat(ours(MESSAGE, CALL).to_dict())
    theirs = ChatCompletion.model_validate(chat)
    assert theirs.choices[0].message.tool_calls[0].function.arguments == CALL["arguments"]
    again = chat_to_response(theirs.to_dict())
    assert [item["type"] for item in again["output"]] == ["message", "function_call"]
    OpenAIResponse.model_validate(Response.model_validate(again).to_dict())
