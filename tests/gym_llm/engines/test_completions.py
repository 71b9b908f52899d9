import pytest

from gym_llm.engines.http_bodies import completion_body, completion_to_response
from gym_llm.errors import EngineError

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


def test_a_limit_is_cut_to_what_is_left_of_the_context():
    assert completion_body({"input": "Hi", "max_output_tokens": 1000}, [5] * 10, context=100)["max_tokens"] == 90
    assert completion_body({"input": "Hi", "max_output_tokens": 1000}, [5] * 10)["max_tokens"] == 1000
    assert "max_tokens" not in completion_body({"input": "Hi"}, [5])


def test_log_probabilities_of_the_likeliest_tokens_are_asked_for_and_come_back_on_the_text():
    assert completion_body({"input": "Hi", "top_logprobs": 2}, [5])["logprobs"] == 2
    log_probs = {"tokens": ["a", "b"], "token_logprobs": [-1.0, -2.0], "top_logprobs": [{"a": -1.0, "c": -1.5}, None]}
    answer = {"choices": [{**CHOICE, "token_ids": [7, 8], "logprobs": log_probs}]}
    plain = completion_to_response(answer, model="m", prompt=[5])["output"][0]
    assert "logprobs" not in plain["content"][0]
    asked = completion_to_response(answer, model="m", prompt=[5], text_log_probs=True)["output"][0]
    first, second = asked["content"][0]["logprobs"]
    assert (first["token"], first["logprob"], first["bytes"]) == ("a", -1.0, [97])
    assert [(one["token"], one["logprob"]) for one in first["top_logprobs"]] == [("a", -1.0), ("c", -1.5)]
    assert second["top_logprobs"] == [] and asked["generation_log_probs"] == [-1.0, -2.0]
