import pytest

from gym_llm.engines.base import EngineError
from gym_llm.engines.completions import completion_body, completion_to_response

CHOICE = {"text": "4", "finish_reason": "stop", "token_ids": [7, 9], "logprobs": {"token_logprobs": [-0.5, -0.1]}}


def test_a_prompt_takes_the_requests_sampling_along_and_nothing_of_the_chat():
    tool = {"type": "function", "name": "f", "parameters": {}}
    text = {"format": {"type": "json_schema", "name": "x", "schema": {}}}
    request = {"input": "Hi", "tools": [tool], "tool_choice": "auto", "top_p": 0.5, "stop": ["!"], "text": text}
    request |= {"reasoning": {"effort": "low"}, "chat_template_kwargs": {"enable_thinking": False}}
    body = completion_body(request, [5, 6], context=100)
    assert body["prompt"] == [5, 6] and body["top_p"] == 0.5 and body["stop"] == ["!"] and body["max_tokens"] == 98
    assert body["response_format"]["json_schema"] == {"name": "x", "schema": {}}
    assert not {"messages", "tools", "tool_choice", "reasoning_effort", "chat_template_kwargs"} & body.keys()


def test_a_limit_wins_over_the_context():
    assert completion_body({"input": "Hi", "max_output_tokens": 3}, [5], context=100)["max_tokens"] == 3


def test_the_response_carries_the_tokens():
    response = completion_to_response({"choices": [CHOICE]}, model="m", prompt=[5, 6])
    (item,) = response["output"]
    assert item["content"][0]["text"] == "4" and response["status"] == "completed"
    assert item["prompt_token_ids"] == [5, 6]
    assert item["generation_token_ids"] == [7, 9] and item["generation_log_probs"] == [-0.5, -0.1]
    assert response["usage"] == {"input_tokens": 2, "output_tokens": 2, "total_tokens": 4}


def test_a_cut_completion_is_incomplete():
    cut = completion_to_response({"choices": [{**CHOICE, "finish_reason": "length"}]}, model="m", prompt=[5])
    assert cut["status"] == "incomplete" and cut["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": []},
        {"choices": [{"text": "4"}]},
        {"choices": [{**CHOICE, "token_ids": None}]},
        {"choices": [{**CHOICE, "token_ids": [7]}]},
        [],
        None,
    ],
)
def test_an_answer_without_tokens_fails_the_request(answer):
    with pytest.raises(EngineError):
        completion_to_response(answer, model="m", prompt=[5])
