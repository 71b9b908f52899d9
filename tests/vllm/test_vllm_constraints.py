"""Forced calls and JSON schemas with `vllm:pocket`, by the grammar that the other engines make masks of."""

import asyncio
import json

import openai
import pytest
from forced_calls import ANSWER, TOOLS, calls, expect_log_probs_under_the_mask, fits, has_valid_calls, request

from gym_llm import make_engine
from gym_llm.agents.capture import CaptureServer, CaptureSession
from gym_llm.engines.model_server import ModelServer
from gym_llm.engines.parsing_engine import ParsingEngine
from gym_llm.errors import EngineError

NAMED = {"type": "function", "name": "measure"}
QUICK = {"reasoning": {"effort": "none"}, "max_output_tokens": 400}


class Parsed(ParsingEngine):
    """An engine that is started, with parsers; a server that gets it does not start or close it."""

    def __init__(self, engine):
        super().__init__(engine, ["reasoning", "tool_calls"])

    async def start(self):
        pass

    async def aclose(self):
        pass


def ask_all(vllm, requests):
    async def main():
        return await asyncio.gather(*map(Parsed(vllm.engine).respond, requests))

    return vllm.run(main())


@pytest.mark.parametrize("effort", ["none", "high"])
def test_a_forced_call_is_made_whatever_is_sampled(vllm, effort):
    asked = request(tools=TOOLS, tool_choice="required", temperature=2.0, max_output_tokens=400)
    answered = ask_all(vllm, [{**asked, "reasoning": {"effort": effort}}] * 24)
    completed = [response for response in answered if response["status"] == "completed"]
    assert len(completed) >= 12 and all(map(has_valid_calls, completed))
    assert {call["name"] for response in completed for call in calls(response)} == {"measure", "stop"}


def test_several_calls_may_follow_each_other_unless_one_is_asked_for(vllm):
    endless = [token for token in range(1024) if token not in (1015, 1017)]
    asked = request(tools=TOOLS, tool_choice="required", allowed_token_ids=endless, seed=1, **QUICK)
    (several,) = ask_all(vllm, [asked])
    assert len(calls(several)) > 1 and several["status"] == "incomplete"
    for alone in ({"parallel_tool_calls": False}, {"tool_choice": NAMED}):
        with pytest.raises(EngineError):  # nothing but the end may follow
            ask_all(vllm, [{**asked, **alone}])


def test_a_named_tool_is_called_once(vllm):
    answered = ask_all(vllm, [request(tools=TOOLS, tool_choice=NAMED, temperature=2.0, **QUICK)] * 24)
    completed = [response for response in answered if response["status"] == "completed"]
    assert len(completed) >= 12 and all(map(has_valid_calls, completed))
    assert all([call["name"] for call in response["output"]] == ["measure"] for response in completed)


def test_log_probabilities_are_those_among_the_allowed_tokens(vllm):
    asked = request(tools=TOOLS, tool_choice=NAMED, temperature=1.3, seed=3, **QUICK)
    (response,) = ask_all(vllm, [asked])
    assert response["status"] == "completed"
    expect_log_probs_under_the_mask(response["output"][-1], asked)


def test_the_most_likely_tokens_are_allowed_ones(vllm):
    (response,) = ask_all(vllm, [request(tools=TOOLS, tool_choice="required", top_logprobs=5, **QUICK)])
    entries = response["output"][-1]["logprobs"]
    assert [entry["token"] for entry in entries[0]["top_logprobs"]] == ["<tool_call>"]
    json.dumps(entries, allow_nan=False)


@pytest.mark.parametrize("end", [1015, 1017])
def test_a_constrained_turn_may_end_with_each_of_the_models_stop_tokens(vllm, end):
    allowed = [token for token in range(1024) if token == end or token not in (1015, 1017)]
    asked = request(tools=TOOLS, tool_choice=NAMED, temperature=1.0, seed=1, allowed_token_ids=allowed, **QUICK)
    (response,) = ask_all(vllm, [asked])
    assert has_valid_calls(response) and response["output"][-1]["generation_token_ids"][-1] == end


def test_an_answer_has_the_form_of_its_schema_or_is_a_call_after_its_thinking(vllm):
    for response in ask_all(vllm, [request(text=ANSWER, tools=TOOLS, temperature=1.5, max_output_tokens=400)] * 12):
        last = response["output"][-1]
        if response["status"] == "completed" and last["type"] == "message":
            assert fits(json.loads(last["content"][0]["text"])) and last["generation_constrained"] is True
        elif response["status"] == "completed":
            assert has_valid_calls(response)


def test_a_reasoning_parser_does_not_free_what_comes_before_its_end(start_vllm):
    """The parser of vLLM would wait for a `</think>` that a turn without thinking never has."""
    engine = start_vllm(reasoning_parser="qwen3")
    asked = request(tools=TOOLS, tool_choice=NAMED, temperature=1.5, max_output_tokens=400)
    answered = ask_all(engine, [asked, {**asked, **QUICK}] * 6)
    completed = [response for response in answered if response["status"] == "completed"]
    assert len(completed) >= 6 and all(map(has_valid_calls, completed))


def test_a_constraint_that_cannot_be_met_fails_that_request_alone(vllm):
    dead_end = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^b$", "minLength": 5}}}
    dead_end["required"] = ["a"]
    form = {"type": "json_schema", "name": "x", "schema": dead_end}
    asked = [
        request(text={"format": form}, **QUICK),
        request(tools=TOOLS, tool_choice="required", allowed_token_ids=[5, 6, 7], **QUICK),
        request(tools=TOOLS, tool_choice={"type": "function", "name": "absent"}, **QUICK),
        request(tools=TOOLS, tool_choice=NAMED, **QUICK),
    ]

    async def main():
        return await asyncio.gather(*map(Parsed(vllm.engine).respond, asked), return_exceptions=True)

    *failed, answered = vllm.run(main())
    assert all(isinstance(error, EngineError) for error in failed), failed
    assert has_valid_calls(answered)


def test_the_engine_chooses_the_backend_of_its_grammars():
    with pytest.raises(ValueError, match="guidance"):
        make_engine("vllm:pocket", structured_outputs_config={"backend": "xgrammar"})


def test_calls_are_forced_through_serve_model_and_capture(vllm):
    tools = [{"type": "function", "function": {name: tool[name] for name in ("name", "parameters")}} for tool in TOOLS]
    asked = {"model": "pocket", "messages": request()["input"], "tools": tools, "reasoning_effort": "none"}
    asked.update(max_tokens=400, extra_body={"return_token_ids": True})
    choices = ["required", {"type": "function", "function": {"name": "measure"}}] * 8

    async def ask(url, key):
        async with openai.AsyncOpenAI(base_url=url, api_key=key) as client:
            create = client.chat.completions.create
            return await asyncio.gather(*(create(tool_choice=choice, **asked) for choice in choices))

    async def serve():
        async with ModelServer(Parsed(vllm.engine), port=0) as server:
            return await ask(server.url, "x")

    async def capture():
        async with CaptureServer(Parsed(vllm.engine), port=0) as server:
            server.open(session := CaptureSession(Parsed(vllm.engine)))
            return await ask(f"{server.url}/v1", session.id), session.trajectory()

    answers, trajectory = vllm.run(capture())
    for place in (answers, vllm.run(serve())):
        made = [answer.choices[0] for answer in place if answer.choices[0].finish_reason != "length"]
        assert len(made) >= 4 and all(choice.finish_reason == "tool_calls" for choice in made)
        assert all(choice.to_dict()["generation_constrained"] is True for choice in made)
        functions = [call.function for choice in made for call in choice.message.tool_calls]
        assert all(each.name == "stop" or fits(json.loads(each.arguments)) for each in functions)
    assert trajectory and all(segment["constrained"] == segment["loss_mask"] for segment in trajectory)
