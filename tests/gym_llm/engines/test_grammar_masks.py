"""Turns of the pocket model under a constraint: always of the form, exact to the log probability, and said so."""

import asyncio
import enum
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import llguidance
import openai
import pydantic
import pytest
from forced_calls import ANSWER, TOOLS, calls, expect_log_probs_under_the_mask, fits, has_valid_calls, request
from hostile_schemas import HOSTILE_SCHEMAS
from llguidance.hf import from_tokenizer
from testing import pocket_client
from token_conversations import tokenizer_for

from gym_llm.engines import make_engine
from gym_llm.engines.constraints import constraint_of
from gym_llm.engines.grammar_masks import GrammarMasks, TokenMask
from gym_llm.errors import EngineError
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.wrappers import TokenIdTracking

pytestmark = pytest.mark.slow


def run(requests: list[dict[str, Any]], **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with make_engine("pocket", parsers=["reasoning", "tool_calls"], **options) as engine:
            asked = (engine.respond(one, episode_id=f"{n}") for n, one in enumerate(requests))  # type: ignore[arg-type]
            return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(main())


def test_a_forced_call_is_made_whatever_is_sampled() -> None:
    for response in run([request(tools=TOOLS, tool_choice="required", temperature=2.0, max_output_tokens=400)] * 24):
        assert response["status"] == "incomplete" or has_valid_calls(response)  # it may still have been thinking


@pytest.mark.parametrize("effort", ["none", "high"])
def test_a_named_tool_is_called_once(effort: str) -> None:
    choice = {"type": "function", "name": "measure"}
    asked = request(tools=TOOLS, tool_choice=choice, temperature=1.5, reasoning={"effort": effort})
    responses = [one for one in run([asked] * 12) if one["status"] == "completed"]
    assert len(responses) >= 6
    for response in responses:
        (call,) = calls(response)
        assert call["name"] == "measure" and fits(json.loads(call["arguments"]))
        assert effort != "none" or response["output"] == [call]


def test_an_answer_has_the_form_of_its_schema_or_is_a_call() -> None:
    for tools in ([], TOOLS):
        answered = [one for one in run([request(text=ANSWER, tools=tools, temperature=1.5)] * 12)]
        for response in (one for one in answered if one["status"] == "completed"):
            last = response["output"][-1]
            if last["type"] == "message":
                assert fits(json.loads(last["content"][0]["text"]))
            else:
                assert tools and last["type"] == "function_call"


def test_log_probabilities_are_those_among_the_allowed_tokens() -> None:
    asked = request(tools=TOOLS, tool_choice="required", reasoning={"effort": "none"}, temperature=1.3)
    (response,) = run([asked])
    expect_log_probs_under_the_mask(response["output"][-1], asked)


def test_other_requests_of_the_batch_are_sampled_as_if_they_were_alone() -> None:
    plain = request(temperature=1.0)
    alone = run([plain])[0]["output"][-1]
    together = run([plain, *[request(text=ANSWER)] * 5])[0]["output"][-1]
    assert together["generation_token_ids"] == alone["generation_token_ids"]
    assert "generation_constrained" not in together


def test_the_most_likely_tokens_are_allowed_ones() -> None:
    asked = request(tools=TOOLS, tool_choice="required", reasoning={"effort": "none"}, top_logprobs=20)
    (response,) = run([asked])
    entries = response["output"][-1]["logprobs"]
    assert entries[0]["top_logprobs"][0]["token"] == "<tool_call>" and len(entries[0]["top_logprobs"]) == 1
    json.dumps(entries, allow_nan=False)


def test_the_trajectory_says_which_ids_were_sampled_under_a_constraint() -> None:
    row = {
        "responses_create_params": {"input": "2+2?", "text": {"format": {"type": "json_object"}}},
        "expected_answer": "4",
    }
    env = TokenIdTracking(gym.make("gym_llm/FollowUp-v0", tasks=[row]))
    env.reset(seed=0)
    turns: dict[str, Any] = {"prompt_token_ids": [5, 6], "generation_token_ids": [7], "generation_log_probs": [-0.5]}
    turns["generation_constrained"] = True
    *_, info = env.step([{"type": "message", "role": "assistant", "content": "4", **turns}])
    assert info["trajectory"] == [
        {"input_ids": [5, 6, 7], "loss_mask": [0, 0, 1], "logprobs": [0, 0, -0.5], "constrained": [0, 0, 1]}
    ]


def test_hostile_schemas_fail_alone() -> None:
    forms = [{"type": "json_schema", "name": "x", "schema": schema} for schema in HOSTILE_SCHEMAS.values()]
    fields: dict[str, Any] = {"max_output_tokens": 24, "reasoning": {"effort": "none"}}
    answers = run([*(request(text={"format": form}, **fields) for form in forms), request()])
    assert answers.pop()["output"]
    assert all(isinstance(answer, (dict, EngineError)) for answer in answers)
    refused = [name for name, answer in zip(HOSTILE_SCHEMAS, answers, strict=True) if isinstance(answer, EngineError)]
    assert {"deep", "circle", "elsewhere", "a file", "look ahead", "product", "wrong types"} <= set(refused)
    assert all(len(str(answer)) <= 160 and "\n" not in str(answer) for answer in answers if type(answer) is EngineError)


class Length(pydantic.BaseModel):
    """A length; as pydantic writes its schema, with titles and a reference."""

    class Unit(enum.Enum):
        CM, M = "cm", "m"

    n: int = pydantic.Field(ge=0, le=99, description="How long.")
    unit: Unit = Unit.CM
    note: str | None = pydantic.Field(default=None, max_length=20)


def test_openais_client_gets_typed_answers_and_forced_calls() -> None:
    async def main() -> None:
        async with pocket_client() as client:
            ask: dict[str, Any] = {"model": "pocket", "reasoning_effort": "none", "max_tokens": 400}
            messages: Any = [{"role": "user", "content": "How long is it?"}]
            parsed = await client.chat.completions.parse(messages=messages, response_format=Length, **ask)
            assert isinstance(parsed.choices[0].message.parsed, Length)
            tool = openai.pydantic_function_tool(Length)
            exact = await client.chat.completions.create(
                messages=messages, tools=[tool], tool_choice="required", extra_body={"return_token_ids": True}, **ask
            )
            (call,) = exact.choices[0].message.tool_calls or ()
            assert call.type == "function" and Length.model_validate_json(call.function.arguments)
            assert exact.choices[0].to_dict()["generation_constrained"] is True
            with pytest.raises(openai.BadRequestError, match="uniqueItems"):
                schema = {"type": "array", "uniqueItems": True}
                form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                await client.chat.completions.create(messages=messages, response_format=form, **ask)
            whole = await client.responses.parse(
                model="pocket", input="How long?", text_format=Length, reasoning={"effort": "none"}
            )
            assert isinstance(whole.output_parsed, Length)

    asyncio.run(main())


def test_a_schema_is_compiled_once() -> None:
    async def main() -> None:
        tokenizer = tokenizer_for("pocket")
        masks = GrammarMasks(PromptTokens(tokenizer, stop_token_ids=[1017]), tokenizer, 1024, model="pocket")
        first, second = [await masks.of(request(text=ANSWER)) for _ in range(2)]  # type: ignore[arg-type]
        assert first is not None and second is not None and len(masks._compiled) == 1
        first.accept(first.allowed().nonzero()[0][0])
        fresh = await masks.of(request(text=ANSWER))  # type: ignore[arg-type]
        assert fresh is not None and (fresh.allowed() == second.allowed()).all()  # a turn does not move another's
        for number in range(40):
            schema = {"type": "object", "properties": {f"p{number}": {"type": "string"}}}
            await masks.of(request(text={"format": {"type": "json_schema", "schema": schema}}))  # type: ignore[arg-type]
        assert len(masks._compiled) == 32
        masks.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", ["llama", "mistral", "mistral_new"])
def test_other_models_formats_can_be_forced(name: str) -> None:
    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.chat_template = (Path(__file__).parents[2] / "templates" / "calls" / f"{name}.jinja").read_text()
    tokenizer.add_tokens(["[TOOL_CALLS]", "[ARGS]"], special_tokens=True)
    prompts = PromptTokens(tokenizer, stop_token_ids=[1017])
    asked = request(tools=TOOLS[:1], tool_choice="required")
    assert constraint_of(asked) is not None  # type: ignore[arg-type]
    masks = GrammarMasks(prompts, tokenizer, len(tokenizer), model=name)
    mask = asyncio.run(masks.of(asked))  # type: ignore[arg-type]
    assert mask is not None and prompts.call_format is not None
    form = prompts.call_format
    text = f'{form.start}measure{form.middle}{{"n": 5, "unit": "cm"}}{form.end}<|im_end|>'
    for token in tokenizer.encode(text, add_special_tokens=False):
        assert mask.allowed()[token], tokenizer.decode([token])
        mask.accept(token)
    masks.close()


def test_a_matcher_that_knows_one_end_token_allows_all_of_the_grammars() -> None:
    """As vLLM's does; and a turn that was sampled elsewhere has to be whole."""
    tokenizer = tokenizer_for("pocket")
    masks = GrammarMasks(PromptTokens(tokenizer, stop_token_ids=[1015, 1017]), tokenizer, 1024, model="pocket")
    asked: Any = request(tools=TOOLS[:1], tool_choice="required", parallel_tool_calls=False)
    text = '<tool_call>\n{"name": "measure", "arguments": {"n": 5, "unit": "cm"}}\n</tool_call>'
    turn = tokenizer.encode(text, add_special_tokens=False)
    whole, part = [asyncio.run(masks.of(asked)) for _ in range(2)]
    assert whole is not None and part is not None
    matcher = llguidance.LLMatcher(from_tokenizer(tokenizer, 1024), whole.grammar)
    assert matcher.consume_tokens(turn)
    assert TokenMask(matcher, 1024, whole.grammar).allowed().nonzero()[0].tolist() == [1015, 1017]
    whole.accept_turn(turn)
    with pytest.raises(EngineError, match="to its end"):
        part.accept_turn(turn[:-2])
    masks.close()
