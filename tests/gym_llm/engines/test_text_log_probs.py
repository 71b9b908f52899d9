"""The log probabilities of a text are those of its tokens, also after parsers have taken the text apart."""

import asyncio
from typing import Any

import pytest
from testing import pocket_client

from gym_llm.engines.engine_response import log_prob_entry, text_response
from gym_llm.engines.text_log_probs import spread_log_probs
from gym_llm.tokens.parsers import make_parser

ADD = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Look up the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
QUESTION = [{"role": "user", "content": "What is 2 + 3? Put the answer in \\boxed{}."}]


def entries(*tokens: bytes) -> list[dict[str, Any]]:
    return [log_prob_entry(token, -float(index)) for index, token in enumerate(tokens, 1)]


def parsed(text: str, tokens: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sampled = text_response(text)["output"]
    sampled[0]["content"][0]["logprobs"] = tokens
    items = sampled
    for name in ("reasoning", "tool_calls"):
        items = make_parser(name).parse(items, {"input": [], "tools": [ADD["function"]]})
    return spread_log_probs(sampled, items)


def joined(part: dict[str, Any]) -> bytes:
    return b"".join(bytes(entry["bytes"]) for entry in part["logprobs"])


def test_each_text_has_its_own_tokens() -> None:
    call = '<tool_call>{"name": "f", "arguments": {"x": "né"}}</tool_call>'
    tokens = entries(b"<think>", b"hm", b"</think>", "né".encode()[:2], "é".encode()[1:], b" and", call.encode(), b"so")
    reasoning, before, made, after = parsed(f"<think>hm</think>né and{call}so", [*tokens, *entries(b"<end>")])
    assert joined(before["content"][0]).decode() == "né and" and joined(after["content"][0]) == b"so"
    assert [entry["logprob"] for entry in before["content"][0]["logprobs"]] == [-4, -5, -6]
    assert "logprobs" not in reasoning and "logprobs" not in made


def test_a_turn_of_calls_alone_has_all_its_tokens() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    (made,) = parsed(call, tokens := entries(call[:9].encode(), call[9:].encode()))
    assert made["type"] == "function_call" and made["logprobs"] == tokens


@pytest.mark.parametrize("first", [b" 4", b"4"])
def test_the_space_that_sentencepiece_leaves_out_is_no_difference(first: bytes) -> None:
    (message,) = parsed("4 is it", entries(first, b" is it", b"</s>"))
    assert [entry["logprob"] for entry in message["content"][0]["logprobs"]] == [-1, -2]


def test_tokens_of_another_text_are_kept_whole() -> None:
    (message,) = parsed("four", tokens := entries(b"Something", b" else"))
    assert message["content"][0]["logprobs"] == tokens


@pytest.mark.slow
def test_a_served_model_answers_with_log_probabilities() -> None:
    async def main() -> None:
        async with pocket_client() as client:
            ask: dict[str, Any] = {"model": "pocket", "messages": QUESTION, "temperature": 0}
            plain = await client.chat.completions.create(**ask)
            assert plain.choices[0].logprobs is None
            for more in ({}, {"top_logprobs": 0}, {"top_logprobs": 3}):
                choice = (await client.chat.completions.create(**ask, logprobs=True, **more)).choices[0]
                assert choice.logprobs is not None and choice.logprobs.content
                assert "".join(entry.token for entry in choice.logprobs.content) == choice.message.content
                assert {len(entry.top_logprobs) for entry in choice.logprobs.content} == {more.get("top_logprobs", 0)}
            exact = await client.chat.completions.create(
                **ask, logprobs=True, top_logprobs=2, extra_body={"return_token_ids": True}
            )
            ids, got = exact.choices[0].to_dict()["token_ids"], exact.choices[0].logprobs
            assert got is not None and got.content is not None and len(got.content) == len(ids)  # type: ignore[arg-type]
            assert len(got.content[-2].top_logprobs) == 2
            parts = []
            async for chunk in await client.chat.completions.create(**ask, logprobs=True, stream=True):
                for each in chunk.choices:
                    parts += [entry.token for entry in (each.logprobs and each.logprobs.content) or ()]
            assert "".join(parts) == choice.message.content

            called = await client.chat.completions.create(
                model="pocket", messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
                tools=[ADD], logprobs=True, temperature=0,
            )  # fmt: skip
            assert called.choices[0].message.tool_calls and called.choices[0].logprobs is not None
            assert "get_weather" in "".join(entry.token for entry in called.choices[0].logprobs.content or ())

    asyncio.run(main())


@pytest.mark.slow
def test_a_served_model_includes_log_probabilities_in_responses() -> None:
    async def main() -> None:
        async with pocket_client() as client:
            ask: dict[str, Any] = {"model": "pocket", "input": QUESTION, "temperature": 0}
            ask |= {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
            whole = await client.responses.create(**ask)
            part: Any = next(item for item in whole.output if item.type == "message").content[0]
            assert "".join(entry.token for entry in part.logprobs) == part.text == whole.output_text
            assert {len(entry.top_logprobs) for entry in part.logprobs} == {2}
            streamed = []
            async for event in await client.responses.create(**ask, stream=True):
                if event.type == "response.output_text.delta":
                    streamed += [entry.token for entry in event.logprobs]
            assert "".join(streamed) == part.text

    asyncio.run(main())
