import asyncio
import sys

import pytest
import torch
from testing import POCKET
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from gym_llm.engines.transformers import TransformersEngine
from gym_llm.errors import EngineError, EngineUnavailable

pytestmark = pytest.mark.slow

QUESTIONS = [f"What is {'1 + ' * n}2? Put the answer in \\boxed{{}}." for n in (1, 9, 3, 30, 0, 5, 17)]


def request(text, **fields):
    return {"input": [{"role": "user", "content": text}], **fields}


def run(requests, *, ids=None, path=POCKET, **options):
    """Send all requests at once; the responses (or exceptions) in their order."""

    async def main():
        async with TransformersEngine(path, device="cpu", threads=1, **options) as engine:
            names = ids or [f"episode {n}" for n in range(len(requests))]
            answers = (engine.respond(one, episode_id=name) for one, name in zip(requests, names, strict=True))
            return await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 120)

    return asyncio.run(main())


def last(response):
    return response["output"][-1]


def sampled(response):
    return last(response)["generation_token_ids"]


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(POCKET)


@pytest.fixture(scope="module")
def other_model(tokenizer, tmp_path_factory):
    """Saves a random model of another architecture with the pocket tokenizer."""

    def save(model_class, config_class, **config):
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp("model")
        small = dict(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2)
        heads = dict(num_attention_heads=4, num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id)
        model_class(config_class(**small, **heads, **config)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)

    return save


def check_log_probs(model, responses):
    for response in responses:
        item = last(response)
        prompt, generated = item["prompt_token_ids"], item["generation_token_ids"]
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + generated])).logits[0, len(prompt) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(1, torch.tensor(generated)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(item["generation_log_probs"]), expected, atol=2e-3, rtol=1e-3)


def test_a_response_says_what_was_read_and_sampled(tokenizer):
    asked = request("What is 2 + 2?", instructions="Think.")
    (response,) = run([asked])
    item = last(response)
    prompt = "<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(item["prompt_token_ids"]) == prompt
    assert response["status"] == "completed" and response["incomplete_details"] is None
    assert item["generation_token_ids"][-1] == tokenizer.eos_token_id
    assert item["content"][0]["text"] == tokenizer.decode(item["generation_token_ids"][:-1])
    assert item["content"][0]["text"].startswith("<think>\n")
    assert len(item["generation_log_probs"]) == len(item["generation_token_ids"])
    tokens = len(item["prompt_token_ids"]), len(item["generation_token_ids"])
    assert response["usage"] == {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}


def test_log_probs_of_a_ragged_batch_are_the_models_own(model):
    responses = run([request(text, temperature=1.5, top_p=0.9) for text in QUESTIONS], max_batch_size=3)
    assert len({len(sampled(response)) for response in responses}) > 1
    check_log_probs(model, responses)


@pytest.mark.parametrize(
    ("model_class", "config_class", "config"),
    [(LlamaForCausalLM, LlamaConfig, {}), (MistralForCausalLM, MistralConfig, {"sliding_window": 64})],
)
def test_other_architectures(other_model, model_class, config_class, config):
    path = other_model(model_class, config_class, max_position_embeddings=512, **config)
    responses = run([request(text, max_output_tokens=100) for text in QUESTIONS[:3]], path=path)
    check_log_probs(AutoModelForCausalLM.from_pretrained(path).eval(), responses)
    if "sliding_window" in config:
        assert max(response["usage"]["total_tokens"] for response in responses) == 64


def test_sampling_does_not_depend_on_the_batch():
    together = run([request(text) for text in QUESTIONS])
    for index in (0, 3):
        (alone,) = run([request(QUESTIONS[index])], ids=[f"episode {index}"])
        assert sampled(alone) == sampled(together[index])


def test_seed_and_episode_choose_the_sample():
    asked = [request("Hello there!", max_output_tokens=30, temperature=2.0)] * 2
    first, second = map(sampled, run(asked))
    assert first != second
    assert sampled(run(asked, seed=1)[0]) != first
    nameless = run(asked, ids=["", ""])
    assert sampled(nameless[0]) != sampled(nameless[1])


def test_temperature_zero_and_a_tiny_nucleus_take_the_most_probable_token(model):
    greedy = run([request(text, temperature=0, max_output_tokens=40) for text in QUESTIONS[:3]])
    narrow = run([request(text, top_p=1e-6, max_output_tokens=40) for text in QUESTIONS[:3]])
    for one, other in zip(greedy, narrow, strict=True):
        prompt = torch.tensor([last(one)["prompt_token_ids"]])
        reference = model.generate(prompt, do_sample=False, max_new_tokens=40)[0, prompt.shape[1] :].tolist()
        assert sampled(one) == sampled(other) == reference


def test_first_tokens_are_distributed_as_the_model_says(other_model):
    path = other_model(LlamaForCausalLM, LlamaConfig, tie_word_embeddings=True, initializer_range=0.5)
    responses = run([request("Hi", max_output_tokens=1)] * 2000, path=path, max_batch_size=500)
    prompt = torch.tensor([last(responses[0])["prompt_token_ids"]])
    model = AutoModelForCausalLM.from_pretrained(path)
    with torch.inference_mode():
        probability, token = model(prompt).logits[0, -1].softmax(-1).max(-1)
    share = sum(sampled(response) == [token.item()] for response in responses) / len(responses)
    assert 0.02 < probability < 0.98
    assert share == pytest.approx(probability.item(), abs=5 * (probability * (1 - probability) / 2000).sqrt().item())


def test_reaching_the_token_limit_is_incomplete():
    (response,) = run([request("What is 12 + 34?", max_output_tokens=3)])
    assert response["status"] == last(response)["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert len(sampled(response)) == 3


def test_a_prompt_that_fills_the_context_gets_an_empty_incomplete_response():
    long, short = run([request("1" * 5000), request("What is 1 + 1?")])
    assert long["status"] == "incomplete" and sampled(long) == [] and last(long)["content"][0]["text"] == ""
    assert long["usage"]["input_tokens"] > 5000
    assert short["status"] == "completed"


def test_more_requests_than_slots_are_all_answered():
    responses = run([request(QUESTIONS[n % 7], max_output_tokens=5 + n) for n in range(40)], max_batch_size=4)
    assert all(response["status"] in ("completed", "incomplete") for response in responses)


def test_function_calls_and_their_outputs_are_read_back(tokenizer):
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": '{"city":"Oslo"}'}
    output = {"type": "function_call_output", "call_id": "c", "output": "cold"}
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look it up."}]}
    (response,) = run([{"input": [{"role": "user", "content": "Weather?"}, reasoning, call, output]}])
    assert tokenizer.decode(last(response)["prompt_token_ids"]).endswith(
        "<think>\nLook it up.\n</think>\n\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\ncold\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_request_that_cannot_be_read_fails_alone():
    image = [{"type": "input_image", "image_url": "data:,"}]
    bad, surrogate, good = run(
        [{"input": [{"role": "user", "content": image}]}, request("\ud800"), request("What is 1 + 1?")]
    )
    assert isinstance(bad, EngineError) and "text only" in str(bad)
    assert isinstance(surrogate, EngineError)
    assert good["status"] == "completed"


def test_a_cancelled_request_leaves_the_others_alone():
    async def main():
        async with TransformersEngine(POCKET, device="cpu", threads=1, max_batch_size=2) as engine:
            tasks = [asyncio.create_task(engine.respond(request(text, temperature=3.0))) for text in QUESTIONS]
            await asyncio.sleep(0.02)
            for task in tasks[::2]:
                task.cancel()
            return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    results = asyncio.run(main())
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    assert all(isinstance(result, dict) for result in results[1::2])


@pytest.mark.parametrize(
    ("crash", "kind"),
    [
        (ZeroDivisionError("by 0"), "provider_unavailable"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "provider_oom_killed"),
    ],
)
def test_a_crash_while_generating_fails_every_request_now_and_later(monkeypatch, crash, kind):
    def crashing():
        raise crash

    async def main():
        async with TransformersEngine(POCKET, device="cpu", threads=1, max_batch_size=2) as engine:
            monkeypatch.setattr(engine._decoder, "step", crashing)
            answers = [engine.respond(request(text)) for text in QUESTIONS]
            now = await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 60)
            with pytest.raises(EngineError) as later:
                await engine.respond(request("Hello?"))
            return [*now, later.value]

    for error in asyncio.run(main()):
        assert isinstance(error, EngineError) and type(crash).__name__ in str(error)
        assert error.failure_kind == kind


def test_an_answer_that_the_tokenizer_cannot_decode_fails_alone(monkeypatch):
    """Models have more ids than their tokenizers have tokens, and some tokenizers refuse such an id."""

    async def main():
        async with TransformersEngine(POCKET, device="cpu", threads=1) as engine:
            decode = engine._tokenizer.decode

            def refusing(ids, **options):
                if len(ids) == 3:
                    raise IndexError("piece id is out of range")
                return decode(ids, **options)

            monkeypatch.setattr(engine._tokenizer, "decode", refusing)
            lengths = (3, 2, 4)
            asked = (engine.respond(request("What is 12 + 34?", max_output_tokens=length)) for length in lengths)
            return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10)

    bad, *good = asyncio.run(main())
    assert isinstance(bad, EngineError) and "piece id is out of range" in str(bad)
    assert bad.failure_kind == "agent_run_error"
    assert [len(sampled(response)) for response in good] == [2, 4]


def test_closing_fails_what_is_under_way_and_may_be_repeated():
    async def main():
        engine = TransformersEngine(POCKET, device="cpu", threads=1)
        await engine.start()
        pending = asyncio.create_task(engine.respond(request("Hello", temperature=5.0, max_output_tokens=4000)))
        await asyncio.sleep(0.05)
        await engine.aclose()
        await engine.aclose()
        with pytest.raises(EngineError, match="closed") as caught:
            await pending
        assert caught.value.failure_kind == "shutdown"
        with pytest.raises(EngineError, match="closed"):
            await engine.respond(request("Hello"))

    asyncio.run(main())


def test_an_engine_that_was_not_started_says_so():
    with pytest.raises(EngineError, match="not started"):
        asyncio.run(TransformersEngine(POCKET).respond(request("Hello")))


@pytest.mark.parametrize("options", [{"device": "teapot"}, {"dtype": "float33"}])
def test_a_device_or_dtype_that_does_not_exist_is_unavailable(options):
    with pytest.raises(EngineUnavailable, match="Cannot load the model"):
        asyncio.run(TransformersEngine(POCKET, **options).start())


def test_a_model_that_does_not_exist_is_unavailable(tmp_path):
    with pytest.raises(EngineUnavailable) as error:
        asyncio.run(TransformersEngine(str(tmp_path / "nothing")).start())
    assert "nothing" in str(error.value) and "\n" not in str(error.value)


def test_a_model_without_a_chat_template_is_unavailable(other_model, tmp_path):
    path = other_model(LlamaForCausalLM, LlamaConfig)
    for file in ("chat_template.jinja",):
        (tmp_path.__class__(path) / file).unlink()
    with pytest.raises(EngineUnavailable, match="no chat template"):
        asyncio.run(TransformersEngine(path).start())


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EngineUnavailable, match=r"needs torch: pip install -e '.*\[local\]'"):
        asyncio.run(TransformersEngine(POCKET).start())


@pytest.mark.parametrize("options", [{"max_batch_size": 0}, {"max_new_tokens": 1.5}, {"threads": 0}])
def test_bad_arguments_are_one_sentence(options):
    with pytest.raises(ValueError, match=rf"^{next(iter(options))} is a whole number"):
        TransformersEngine(POCKET, **options)


@pytest.mark.parametrize(
    "fields",
    [
        *({"temperature": value} for value in ("1", -1, 10**400, float("nan"), True)),
        *({"top_p": value} for value in ("x", [1], 0, 1.5)),
        *({"max_output_tokens": value} for value in ("9", 2.5, 0)),
        *({"text": value} for value in ("x", {"format": "json"})),
        {"top_logprobs": 21},
        {"top_logprobs": -1},
        {"input": [{"role": "assistant", "content": "4", "prompt_token_ids": [99_999], "generation_token_ids": [1]}]},
        {"input": [{"role": "assistant", "content": "4", "prompt_token_ids": [-5], "generation_token_ids": [1]}]},
    ],
)
def test_a_request_that_cannot_be_answered_fails_alone(fields):
    answers = run([request("2?"), {**request("2?"), **fields}, request("3?")], history="append")
    assert [isinstance(answer, EngineError) for answer in answers] == [False, True, False]
    assert "stopped" not in str(answers[1])


def test_log_probabilities_of_the_text_are_those_of_the_tokens():
    (response,) = run([request("2?", include=["message.output_text.logprobs"])])
    turn = last(response)
    entries = turn["content"][0]["logprobs"]
    assert [entry["logprob"] for entry in entries] == turn["generation_log_probs"]
    assert "".join(entry["token"] for entry in entries).startswith(turn["content"][0]["text"])


def test_the_most_likely_tokens_are_the_models_own():
    (response,) = run([request("2?", top_logprobs=16, temperature=0)])
    turn = last(response)
    for entry in turn["content"][0]["logprobs"]:
        values = [each["logprob"] for each in entry["top_logprobs"]]
        assert len(values) == 16 and values == sorted(values, reverse=True)
        assert entry["logprob"] == values[0] and entry["token"] == entry["top_logprobs"][0]["token"]  # greedy


def test_an_engine_that_was_closed_can_be_started_again():
    async def main():
        engine = TransformersEngine(POCKET)
        texts = []
        for _ in range(2):
            async with engine:
                texts.append((await engine.respond(request("2?", temperature=0)))["output"][0]["content"][0]["text"])
        return texts

    first, second = asyncio.run(main())
    assert first == second


def test_thinking_is_switched_off_in_the_chat_template(tokenizer):
    off = [{"reasoning": {"effort": "none"}}, {"chat_template_kwargs": {"enable_thinking": False}}]
    for response in run([request("2?", **fields) for fields in off]):
        prompt = tokenizer.decode(last(response)["prompt_token_ids"])
        assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    (wrong,) = run([request("2?", chat_template_kwargs=[1])])
    assert isinstance(wrong, EngineError) and "chat_template_kwargs is an object" in str(wrong)
