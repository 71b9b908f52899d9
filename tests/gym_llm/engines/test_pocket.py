import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import often
from transformers import AutoConfig, AutoTokenizer

import gym_llm
from gym_llm.engines.pocket import MODEL_PATH, PocketEngine

pytestmark = pytest.mark.slow

FOLDER = Path(MODEL_PATH)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


def test_the_model_is_a_plain_qwen3_of_at_most_four_megabytes():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 4 * 2**20
    config = AutoConfig.from_pretrained(FOLDER)
    assert config.architectures == ["Qwen3ForCausalLM"]
    assert config.head_dim in (32, 64) and config.max_position_embeddings >= 4096


@pytest.mark.parametrize("word", ["a", "hello world "])
def test_a_prompt_of_millions_of_characters_is_refused_at_once(word):
    text = word * (12_000_000 // len(word))

    async def ask():
        async with PocketEngine() as engine:
            began = time.monotonic()
            response = await engine.respond({"input": [{"role": "user", "content": text}]})
            return response["status"], response["usage"]["output_tokens"], time.monotonic() - began

    status, sampled, seconds = asyncio.run(ask())
    assert (status, sampled) == ("incomplete", 0) and seconds < 20


def test_it_solves_arithmetic_often_but_not_always():
    records = gym_llm.collect("gym_llm/Arithmetic-v0", "pocket", episodes=200, concurrency=100, seed=1)
    mean = sum(record["reward"] for record in records) / len(records)
    assert 0.5 < mean < 0.9
    assert not any(record["error"] for record in records)
    first = [record["response"]["output"][0]["type"] for record in records]
    assert first.count("reasoning") >= 195


def test_it_nearly_always_knows_better_than_it_samples():
    greedy = {"temperature": 0.0}
    records = gym_llm.collect("gym_llm/Arithmetic-v0", "pocket", episodes=100, concurrency=100, sampling=greedy)
    assert sum(record["reward"] for record in records) > 90


def test_it_asks_the_tool_for_the_weather_and_says_what_it_answered():
    records = gym_llm.collect("gym_llm/Weather-v0", "pocket", episodes=100, concurrency=100, seed=1)
    assert sum(record["reward"] for record in records) >= 80
    said = sum(
        f"The weather in {record['expected_city']} is cold" in str(record["response"]["output"][-1])
        for record in records
    )
    assert said >= 75


def test_the_same_seed_gives_the_same_episodes():
    first, second = (gym_llm.collect("gym_llm/Arithmetic-v0", "pocket", episodes=8, seed=3) for _ in range(2))
    texts = [[record["response"]["output"][-1]["generation_token_ids"] for record in run] for run in (first, second)]
    assert texts[0] == texts[1]


def test_any_prompt_is_answered():
    async def main():
        prompts = ["", " ", "\x00", "<|im_end|>", "<think>", "日本語🤖", "a" * 3000, "</tool_call>" * 50]
        async with PocketEngine(max_new_tokens=40) as engine:
            requests = ({"input": [{"role": "user", "content": prompt}]} for prompt in prompts)
            return await asyncio.gather(*map(engine.respond, requests))

    assert all(response["model"] == "pocket" for response in asyncio.run(main()))


@settings(max_examples=often(100, 300), deadline=None)
@given(st.text())
def test_any_text_survives_the_tokenizer(text):
    tokenizer = _tokenizer()
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def _tokenizer(cache=[]):  # noqa: B006 - hypothesis takes no module fixtures
    if not cache:
        cache.append(AutoTokenizer.from_pretrained(FOLDER))
    return cache[0]


def test_digits_and_tags_are_single_tokens(tokenizer):
    digits = tokenizer.encode("0123456789", add_special_tokens=False)
    assert len(digits) == 10
    assert tokenizer.encode("5x55", add_special_tokens=False)[0] == digits[5]
    text = "<think></think><tool_call></tool_call><tool_response></tool_response>"
    ids = tokenizer.encode(f"<|im_start|>{text}<|im_end|><|endoftext|>", add_special_tokens=False)
    assert len(ids) == 9
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_names_have_the_same_tokens_in_a_sentence_and_in_json(tokenizer):
    for city in ("Oslo", "Buenos Aires", "Xylograd"):
        ids = tokenizer.encode(city, add_special_tokens=False)
        for text in (f"weather in {city}?", f'{{"city": "{city}"}}'):
            inside = tokenizer.encode(text, add_special_tokens=False)
            assert any(inside[i : i + len(ids)] == ids for i in range(len(inside)))


def test_the_template_drops_the_thinking_of_earlier_questions_only(tokenizer):
    turn = {"role": "assistant", "content": "A", "reasoning_content": "hm"}
    user = {"role": "user", "content": "Q"}
    text = tokenizer.apply_chat_template([user, turn, user, turn], tokenize=False)
    question, thought = "<|im_start|>user\nQ<|im_end|>\n", "<think>\nhm\n</think>\n\n"
    assert (
        text == f"{question}<|im_start|>assistant\nA<|im_end|>\n{question}<|im_start|>assistant\n{thought}A<|im_end|>\n"
    )
    raw = {"role": "assistant", "content": f"{thought}A"}
    assert tokenizer.apply_chat_template([user, raw, user, turn], tokenize=False) == text
    prompt = tokenizer.apply_chat_template([user], tokenize=False, add_generation_prompt=True, enable_thinking=False)
    assert prompt == f"{question}<|im_start|>assistant\n<think>\n\n</think>\n\n"


def test_the_template_puts_tool_results_in_one_user_turn(tokenizer):
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    chat = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": None, "tool_calls": [call, call]},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
    ]
    text = tokenizer.apply_chat_template(chat, tools=[{"type": "function", "function": {"name": "f"}}], tokenize=False)
    called = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    assert '<tools>\n{"type": "function", "function": {"name": "f"}}\n</tools>' in text
    assert text.endswith(
        f"<|im_start|>assistant\n{called}\n{called}<|im_end|>\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n"
        "<tool_response>\n2\n</tool_response><|im_end|>\n"
    )
