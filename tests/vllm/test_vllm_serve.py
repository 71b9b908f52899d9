"""HTTPEngine and a real `vllm serve`."""

import asyncio

import pytest
from transformers import AutoTokenizer

import gym_llm
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.errors import EngineUnavailable, TooManyFailures

POCKET = MODEL_PATH
QUESTION = [{"role": "user", "content": "What is 12 + 7? Put the answer in \\boxed{}."}]
OPTIONS = {
    "chat": {"token_ids": True},
    "responses": {},
    "completions": {"tokenizer": POCKET, "history": "append"},
}


def ask(server, api, *requests, **options):
    async def main():
        async with HTTPEngine(server, api=api, **{**OPTIONS[api], **options}) as engine:
            return [await engine.respond(request, episode_id="episode") for request in requests]

    return asyncio.run(main())


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"reasoning": {"effort": "low"}},
        {"reasoning": {"effort": "none"}},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
)
def test_the_apis_agree_on_tokens_where_they_have_them(server, shown):
    request = {"input": QUESTION, "temperature": 0, "max_output_tokens": 100, **shown}
    (chat,), (completion,) = ask(server, "chat", request), ask(server, "completions", request)
    for field in ("prompt_token_ids", "generation_token_ids"):
        assert chat["output"][-1][field] == completion["output"][-1][field]
    log_probs = completion["output"][-1]["generation_log_probs"]
    assert chat["output"][-1]["generation_log_probs"] == pytest.approx(log_probs, abs=1e-3)
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    ids = completion["output"][-1]["generation_token_ids"]
    assert completion["output"][-1]["content"][0]["text"] == tokenizer.decode(ids[:-1])


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_reasoning_that_the_server_parsed_is_an_item_of_its_own(server, api):
    (response,) = ask(server, api, {"input": QUESTION, "temperature": 0})
    kinds = [item["type"] for item in response["output"]]
    assert kinds[0] == "reasoning" and kinds[-1] == "message" and response["status"] == "completed"
    assert "<think>" not in response["output"][-1]["content"][0]["text"]


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_an_answer_that_was_cut_is_incomplete(server, api):
    (response,) = ask(server, api, {"input": QUESTION, "max_output_tokens": 3})
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert len(response["output"][-1]["generation_token_ids"]) == 3


@pytest.mark.parametrize("api", OPTIONS)
def test_a_prompt_that_is_too_long_ends_the_episode(server, api):
    (response,) = ask(server, api, {"input": [{"role": "user", "content": "1 " * 3000}]})
    assert response["incomplete_details"] == {"reason": "context_length_exceeded"} and response["output"] == []


def test_a_completion_goes_on_from_the_sampled_ids(server):
    (first,) = ask(server, "completions", {"input": QUESTION, "max_output_tokens": 6})
    (second,) = ask(server, "completions", {"input": [*QUESTION, *first["output"], *QUESTION]})
    turn = first["output"][-1]
    before = turn["prompt_token_ids"] + turn["generation_token_ids"]
    assert second["output"][-1]["prompt_token_ids"][: len(before)] == before
    assert second["status"] == "completed"  # without a limit it is the context's, not the 16 that servers take


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("arguments", ["not JSON", "[1]", '"text"', "", '{"a": 1}'])
def test_history_with_arguments_that_are_no_object_is_answered(server, api, arguments):
    call = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": arguments}
    output = {"type": "function_call_output", "call_id": "c1", "output": "Error: no JSON object."}
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    request = {"input": [*QUESTION, call, output], "tools": [tool], "max_output_tokens": 4}
    (response,) = ask(server, api, request, max_retries=0)
    assert response["output"]


@pytest.mark.parametrize("api", OPTIONS)
def test_tools_are_called_and_episodes_scored(server, api):
    records = gym_llm.collect(
        "gym_llm/Weather-v0",
        server,
        engine_options={"api": api, **OPTIONS[api]},
        repeats=4,
        sampling={"max_output_tokens": 300},
    )
    assert not [record["error"] for record in records if record["error"]]
    kinds = {item["type"] for record in records for item in record["response"]["output"]}
    assert "function_call" in kinds and "function_call_output" in kinds
    assert bool(records[0]["trajectory"]) == (api != "responses")


def test_a_model_that_the_server_does_not_have_fails_with_its_name(server):
    with pytest.raises(TooManyFailures, match=r"1 of 1 episodes is masked.*another"):
        gym_llm.collect("gym_llm/Arithmetic-v0", server, engine_options={"model": "another"}, limit=1)


def test_a_tokenizer_that_does_not_exist_is_named(server):
    with pytest.raises(EngineUnavailable, match="no/such"):
        ask(server, "completions", tokenizer="/no/such")
