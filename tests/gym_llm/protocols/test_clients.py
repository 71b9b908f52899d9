"""The official clients of the three model APIs read what a ModelServer tells them, whole and streamed."""

from __future__ import annotations

import time

import anthropic
import openai
import pytest
from testing import in_loop

from gym_llm.engines import Engine
from gym_llm.protocols.responses.token_fields import check_tokens
from gym_llm.serve import ModelServer
from gym_llm.types import ResponseDict

TEXT = "Zwölf 🎈\u2028and a second line. " * 20
ARGUMENTS = '{"city": "Köln", "days": [1, 2, 3]}'
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}
ASK = [{"role": "user", "content": "The weather?"}]
TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3, 4], "generation_log_probs": [-0.5, -0.25]}


class Says(Engine):
    """Thinks, says a text and makes two calls, with token ids; keeps what it was asked."""

    model = "says"

    def __init__(self, *output):
        self.output = output or (
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm, the weather."}]},
            _message(TEXT),
            _call("call_1", ARGUMENTS),
            {**_call("call_2", "{}"), **TOKENS},
        )
        self.asked = []

    async def respond(self, request, *, episode_id=""):
        self.asked.append(request)
        usage = {"input_tokens": 2, "output_tokens": 2, "total_tokens": 4}
        response: ResponseDict = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1.0,
            "model": self.model,
            "status": "completed",
            "output": [dict(item) for item in self.output],
            "usage": usage,
        }
        return response


def _message(text):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def _call(call_id, arguments):
    call = {"id": f"fc_{call_id}", "call_id": call_id, "name": "get_weather", "arguments": arguments}
    return {"type": "function_call", "status": "completed", **call}


def served(engine, **options):
    return ModelServer(engine, port=0, **options)


def claude(server, **options):
    return anthropic.AsyncAnthropic(
        base_url=server.url.removesuffix("/v1"), **{"api_key": "any", "max_retries": 0, **options}
    )


def gpt(server):
    return openai.AsyncOpenAI(base_url=server.url, api_key="any", max_retries=0)


@in_loop
async def test_anthropics_client_reads_a_whole_answer_and_a_stream_alike():
    async with served(Says()) as server:
        options = {"model": "says", "max_tokens": 99, "messages": ASK}
        options |= {"tools": [{"name": "get_weather", "input_schema": TOOL}]}
        whole = await claude(server).messages.create(**options)
        async with claude(server).messages.stream(**options) as stream:
            texts = [text async for text in stream.text_stream]
            streamed = await stream.get_final_message()
        for message in (whole, streamed):
            thought, text, *calls = message.content
            assert (thought.thinking, text.text) == ("Hm, the weather.", TEXT)
            assert [(call.id, call.input) for call in calls] == [
                ("call_1", {"city": "Köln", "days": [1, 2, 3]}),
                ("call_2", {}),
            ]
            assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("tool_use", 2, 2)
        assert "".join(texts) == TEXT and len(texts) > 3


@in_loop
async def test_openais_stream_helpers_read_chats_and_responses():
    async with served(Says()) as server:
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}]
        chats = gpt(server).chat.completions
        async with chats.stream(
            model="says", messages=ASK, tools=tools, stream_options={"include_usage": True}
        ) as chat:
            deltas = [event.delta async for event in chat if event.type == "content.delta"]
            completion = await chat.get_final_completion()
        message = completion.choices[0].message
        assert "".join(deltas) == message.content == TEXT
        assert [call.function.arguments for call in message.tool_calls] == [ARGUMENTS, "{}"]
        assert completion.usage.total_tokens == 4
        flat = [{"type": "function", "name": "get_weather", "parameters": TOOL, "strict": False}]
        async with gpt(server).responses.stream(model="says", input=ASK, tools=flat) as events:
            texts = [event.delta async for event in events if event.type == "response.output_text.delta"]
            response = await events.get_final_response()
        assert "".join(texts) == response.output_text == TEXT
        assert [item.arguments for item in response.output if item.type == "function_call"] == [ARGUMENTS, "{}"]


@in_loop
async def test_what_anthropics_client_gives_back_is_what_was_said():
    engine = Says()
    async with served(engine) as server:
        client, options = claude(server).messages, {"model": "says", "max_tokens": 9}
        first = await client.create(messages=ASK, **options)
        results = [
            {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "Rain."}]},
            {"type": "tool_result", "tool_use_id": "call_2", "content": "No city.", "is_error": True},
            {"type": "text", "text": "And now?", "cache_control": {"type": "ephemeral"}},
        ]
        said = [block.to_dict() for block in first.content]
        messages = [*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": results}]
        await client.create(messages=messages, system=[{"type": "text", "text": "Be brief."}], **options)
        request = engine.asked[-1]
    kinds = [item.get("type", "message") for item in request["input"]]
    calls, outputs = ["function_call"] * 2, ["function_call_output"] * 2
    assert [kind for kind in kinds if kind != "message"] == ["reasoning", *calls, *outputs]
    assert request["instructions"] == "Be brief."
    assert [item["output"] for item in request["input"] if "output" in item] == ["Rain.", "No city."]
    assert request["input"][-1]["content"] == "And now?"
    assert request["max_output_tokens"] == 9


@in_loop
async def test_errors_are_the_clients_own():
    async with served(Says(), token="t") as server:
        with pytest.raises(anthropic.AuthenticationError):
            await claude(server).messages.create(model="says", max_tokens=9, messages=ASK)
        client = claude(server, api_key="t").messages
        with pytest.raises(anthropic.NotFoundError, match="no model 'other'"):
            await client.create(model="other", max_tokens=9, messages=ASK)
        with pytest.raises(anthropic.BadRequestError, match="at least one message"):
            await client.create(model="says", max_tokens=9, messages=[])
        with pytest.raises(anthropic.BadRequestError, match="'video'"):
            await client.create(model="says", max_tokens=9, messages=[{"role": "user", "content": [{"type": "video"}]}])


@in_loop
async def test_token_ids_are_told_to_who_asks_for_them_in_every_api():
    async with served(Says()) as server:
        extra = {"return_token_ids": True}
        chat = await gpt(server).chat.completions.create(model="says", messages=ASK, extra_body=extra)
        response = await gpt(server).responses.create(model="says", input=ASK, extra_body=extra)
        message = await claude(server).messages.create(model="says", max_tokens=9, messages=ASK, extra_body=extra)
        assert chat.choices[0].token_ids == message.generation_token_ids == [3, 4]
        assert response.output[-1].generation_token_ids == [3, 4]
        check_tokens(message.prompt_token_ids, message.generation_token_ids, message.generation_log_probs)
        bare = await claude(server).messages.create(model="says", max_tokens=9, messages=ASK)
        assert not hasattr(bare, "generation_token_ids")


@in_loop
async def test_arguments_that_are_no_object_reach_anthropics_client_and_come_back():
    engine = Says(_call("call_1", "[1, 2"))
    async with served(engine) as server:
        client, options = claude(server).messages, {"model": "says", "max_tokens": 9}
        first = await client.create(messages=ASK, **options)
        said = [block.to_dict() for block in first.content]
        result = [{"type": "tool_result", "tool_use_id": "call_1", "content": "?"}]
        await client.create(
            messages=[*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": result}], **options
        )
    assert [item["arguments"] for item in engine.asked[-1]["input"] if "arguments" in item] == ["[1, 2"]


ODD = {
    "chat": [
        {"messages": [{"role": "developer", "content": [{"type": "text", "text": "Hi"}]}, *ASK], "tools": []},
        {"messages": ASK, "store": True, "metadata": {"a": "b"}, "user": "u", "parallel_tool_calls": True, "tools": []},
        {"messages": [*ASK, {"role": "assistant", "content": None}, *ASK], "stream_options": {"include_usage": True}},
        {"messages": ASK, "max_completion_tokens": 5, "top_p": 1, "presence_penalty": 0, "seed": 1, "stop": ["\n"]},
    ],
    "responses": [
        {"input": "Hi", "store": False, "include": ["reasoning.encrypted_content"], "metadata": {}, "tools": []},
        {"input": ASK, "reasoning": {"effort": None, "summary": "auto"}, "text": {"format": {"type": "text"}}},
        {"input": ASK, "truncation": "disabled", "prompt_cache_key": "k", "service_tier": "auto"},
    ],
    "messages": [
        {"messages": ASK, "max_tokens": 5, "metadata": {"user_id": "u"}, "stop_sequences": ["x"], "betas": ["b"]},
        {"messages": ASK, "max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 3},
        {"messages": ASK, "max_tokens": 5, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"messages": [*ASK, {"role": "assistant", "content": "The"}], "max_tokens": 5, "system": "S"},
    ],
}


@pytest.mark.parametrize(("name", "body"), [(name, body) for name, bodies in ODD.items() for body in bodies])
def test_what_frameworks_send_is_not_refused(name, body):
    from gym_llm.protocols import DIALECTS

    request = DIALECTS[name].read(body)
    assert request["input"][-1]["role"] in ("user", "assistant")


@pytest.mark.parametrize("wrong", [0, {"role": "nobody", "content": "x"}, {"type": "message"}])
def test_a_million_wrong_items_cost_what_a_few_do(wrong):
    from gym_llm.protocols import DIALECTS, Refusal

    for body in (
        {"input": [wrong] * 300_000},
        {"input": [*ASK, {"role": "user", "content": [wrong] * 300_000}]},
        {"input": ASK, "tools": [wrong] * 300_000},
    ):
        begun = time.thread_time()
        with pytest.raises(Refusal) as refused:
            DIALECTS["responses"].read(body)
        assert time.thread_time() - begun < 2.0  # all at once took six
        assert len(str(refused.value)) < 5_000


def test_a_long_conversation_is_checked_to_its_end():
    from gym_llm.protocols import DIALECTS, Refusal

    long = [{"role": "user", "content": "x"} for _ in range(1_000)]
    assert len(DIALECTS["responses"].read({"input": long})["input"]) == 1_000
    with pytest.raises(Refusal, match="700"):
        DIALECTS["responses"].read({"input": [*long[:700], {"role": 3}, *long]})
    with pytest.raises(Refusal, match="temperature"):
        DIALECTS["responses"].read({"input": long, "temperature": "hot"})
