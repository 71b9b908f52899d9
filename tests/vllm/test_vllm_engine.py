"""`vllm:pocket` in this process."""

import asyncio
import time

import psutil
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import gym_llm
from gym_llm import make_engine
from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.errors import EngineError

POCKET = MODEL_PATH
QUESTION = "What is 12 + 7? Put the answer in \\boxed{}."


def last(response):
    return response["output"][-1]


def text(response):
    return last(response)["content"][0]["text"]


def sampled(response):
    return last(response)["generation_token_ids"]


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(POCKET)


def test_prompts_that_begin_alike_are_read_once(vllm):
    """vLLM's own default, which a group's members count on."""
    assert vllm.engine.llm.vllm_config.cache_config.enable_prefix_caching is True


def test_the_answer_carries_its_tokens_and_the_models_own_log_probabilities(vllm, tokenizer):
    response = vllm.ask(QUESTION, temperature=0.5)
    message = [{"role": "user", "content": QUESTION}]
    shown = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    prompt = last(response)["prompt_token_ids"]
    assert prompt == tokenizer.encode(shown, add_special_tokens=False)
    ids = sampled(response)
    assert response["status"] == "completed" and ids[-1] == tokenizer.eos_token_id
    assert text(response) == tokenizer.decode(ids[:-1])
    assert response["usage"] == {
        "input_tokens": len(prompt),
        "output_tokens": len(ids),
        "total_tokens": len(prompt) + len(ids),
    }
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval()
    with torch.no_grad():
        log_probs = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    expected = log_probs.gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
    assert last(response)["generation_log_probs"] == pytest.approx(expected, abs=1e-3)


def test_a_later_turn_goes_on_from_the_sampled_ids(vllm):
    first = vllm.respond({"input": [{"role": "user", "content": QUESTION}], "max_output_tokens": 6}, "multi-turn")
    items = [{"role": "user", "content": QUESTION}, *first["output"], {"role": "user", "content": "Go on."}]
    second = vllm.respond({"input": items}, "multi-turn")
    before = last(first)["prompt_token_ids"] + sampled(first)
    assert last(second)["prompt_token_ids"][: len(before)] == before


def test_effort_and_chat_template_kwargs_reach_the_chat_template(vllm, tokenizer):
    for fields in ({"reasoning": {"effort": "none"}}, {"chat_template_kwargs": {"enable_thinking": False}}):
        response = vllm.ask(QUESTION, max_output_tokens=4, **fields)
        prompt = tokenizer.decode(last(response)["prompt_token_ids"])
        assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    with pytest.raises(EngineError, match="chat_template_kwargs is an object"):
        vllm.ask(QUESTION, chat_template_kwargs=[1])


def test_a_limit_and_the_end_of_the_context_leave_the_response_incomplete(vllm):
    cut = vllm.ask(QUESTION, max_output_tokens=3)
    assert cut["incomplete_details"] == {"reason": "max_output_tokens"} and len(sampled(cut)) == 3
    full = vllm.ask("1 " * 2000, max_output_tokens=4000, ignore_eos=True)
    assert full["incomplete_details"] == {"reason": "max_output_tokens"} and full["usage"]["total_tokens"] == 4096
    over = vllm.ask("1 " * 3000)
    assert over["incomplete_details"] == {"reason": "context_length_exceeded"} and over["output"] == []


def test_stop_strings_end_the_text_but_not_the_ids(vllm, tokenizer):
    response = vllm.ask(QUESTION, temperature=0, stop=["="])
    assert response["status"] == "completed" and "=" not in text(response) and "<think>" in text(response)
    assert "=" in tokenizer.decode(sampled(response))


def test_log_probabilities_in_the_text_are_there_when_asked_for(vllm):
    response = vllm.ask(QUESTION, top_logprobs=2, max_output_tokens=4)
    entries = last(response)["content"][0]["logprobs"]
    assert [entry["logprob"] for entry in entries] == last(response)["generation_log_probs"]
    assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
    assert "logprobs" not in last(vllm.ask(QUESTION, max_output_tokens=4))["content"][0]


def test_a_request_with_a_seed_is_answered_the_same_again(vllm):
    question = {"temperature": 2.0, "max_output_tokens": 20, "seed": 5}
    assert sampled(vllm.ask("Hello.", **question)) == sampled(vllm.ask("Hello.", **question))


def test_many_long_prompts_with_seeds_are_answered(vllm):
    """More tokens than vLLM reads at once: it does not survive a seeded prompt read in pieces on a CPU."""

    async def ask():
        request = {"input": [{"role": "user", "content": "1 " * 600}], "max_output_tokens": 2}
        return await asyncio.gather(*(vllm.engine.respond({**request, "seed": seed}) for seed in range(40)))

    assert all(len(sampled(response)) == 2 for response in vllm.run(ask()))


def test_tools_are_in_the_prompt_unless_none_may_be_called(vllm, tokenizer):
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}

    def prompt(**fields):
        return tokenizer.decode(last(vllm.ask("Hi.", max_output_tokens=1, **fields))["prompt_token_ids"])

    assert "get_weather" in prompt(tools=[tool])
    assert "get_weather" not in prompt(tools=[tool], tool_choice="none")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"seed": "one"}, "a whole number"),
        ({"seed": 1 << 70}, "a whole number"),
        ({"stop": 5}, "a string or strings"),
        ({"top_k": 1.5}, "a whole number"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "schema": {"type": "nonsense"}}}}, "nonsense"),
        ({"allowed_token_ids": [99_999]}, "vocab"),
    ],
)
def test_what_vllm_cannot_do_fails_that_request_alone(vllm, fields, reason):
    with pytest.raises(EngineError, match=reason):
        vllm.ask("Hi.", **fields)
    assert vllm.ask("Hi.", max_output_tokens=1)["output"]


def test_cancelling_a_request_ends_it_in_vllm(vllm):
    async def cancel():
        request = {"input": [{"role": "user", "content": "Hi."}], "max_output_tokens": 4000, "ignore_eos": True}
        task = asyncio.ensure_future(vllm.engine.respond(request))
        while not vllm.engine.llm.get_num_unfinished_requests():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled(), vllm.engine.llm.get_num_unfinished_requests()

    assert vllm.run(cancel()) == (True, 0)


def test_sleeping_aborts_what_is_under_way_and_keeps_what_comes_until_it_wakes_up(vllm):
    async def nap():
        request = {"input": [{"role": "user", "content": "Hi."}], "max_output_tokens": 4000, "ignore_eos": True}
        under_way = asyncio.ensure_future(vllm.engine.respond(request))
        await asyncio.sleep(0.5)
        await vllm.engine.sleep()
        later = asyncio.ensure_future(vllm.engine.respond({**request, "max_output_tokens": 2}))
        await asyncio.sleep(0.5)
        waited = not later.done()
        await vllm.engine.wake_up()
        return await under_way, waited, await later

    aborted, waited, later = vllm.run(nap())
    assert aborted["incomplete_details"] == {"reason": "abort"} and aborted["status"] == "incomplete"
    assert waited and len(sampled(later)) == 2


def test_new_weights_answer_and_old_ones_come_back(vllm):
    def greedy():
        message = last(vllm.ask(QUESTION, temperature=0, max_output_tokens=24))
        return message["generation_token_ids"], message["generation_log_probs"]

    before = greedy()
    weights = load_file(f"{POCKET}/model.safetensors")
    noise = torch.Generator().manual_seed(0)
    changed = {
        name: weight + 0.05 * torch.randn(weight.shape, generator=noise).to(weight.dtype)
        for name, weight in weights.items()
    }
    vllm.run(vllm.engine.update_weights(changed.items()))
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32, state_dict=None).eval()
    model.load_state_dict(changed, strict=False)
    ids, log_probs = greedy()
    prompt = last(vllm.ask(QUESTION, temperature=0, max_output_tokens=1))["prompt_token_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
    assert logits.argmax(-1).tolist() == ids != before[0]
    expected = logits.log_softmax(-1).max(-1).values.tolist()
    assert log_probs == pytest.approx(expected, abs=1e-3)
    vllm.run(vllm.engine.update_weights(POCKET))
    again = greedy()
    assert again[0] == before[0] and again[1] == pytest.approx(before[1], abs=1e-5)


def test_a_folder_without_weights_is_refused_and_nothing_changes(vllm, tmp_path):
    with pytest.raises(FileNotFoundError, match="safetensors"):
        vllm.run(vllm.engine.update_weights(tmp_path))
    assert vllm.ask("Hi.", max_output_tokens=1)["output"]


def test_a_cancelled_update_is_finished_and_requests_are_answered_afterwards(vllm):
    async def main():
        update = asyncio.create_task(vllm.engine.update_weights(POCKET))
        await asyncio.sleep(0.02)
        update.cancel()
        with pytest.raises(asyncio.CancelledError):
            await update
        return await asyncio.wait_for(vllm.engine.respond({"input": "Hi.", "max_output_tokens": 3}), 60)

    assert len(sampled(vllm.run(main()))) == 3


def test_updates_and_sleep_exclude_each_other(vllm, monkeypatch):
    llm, calls = vllm.engine.llm, []

    def noted(name):
        method = getattr(llm, name)

        async def note(*args, **kwargs):
            calls.append(name)
            await method(*args, **kwargs)
            calls.append(f"{name} done")

        monkeypatch.setattr(llm, name, note)

    for name in ("pause_generation", "resume_generation", "sleep", "wake_up"):
        noted(name)

    async def main():
        update = asyncio.create_task(vllm.engine.update_weights(POCKET))
        await asyncio.sleep(0)
        await asyncio.gather(update, vllm.engine.sleep(0))
        with pytest.raises(EngineError, match="asleep: `wake_up` comes before"):
            await vllm.engine.update_weights(POCKET)
        await asyncio.gather(vllm.engine.wake_up(), vllm.engine.update_weights(POCKET))
        return await asyncio.wait_for(vllm.engine.respond({"input": "Hi.", "max_output_tokens": 1}), 60)

    assert len(sampled(vllm.run(main()))) == 1
    update = ["pause_generation", "pause_generation done", "resume_generation", "resume_generation done"]
    assert calls == [*update, "sleep", "sleep done", "wake_up", "wake_up done", *update]


def test_an_update_that_fails_stops_vllm_and_nobody_waits_for_ever(start_vllm):
    vllm = start_vllm()
    wrong = {"model.norm.weight": torch.zeros(7)}

    async def main():
        update = asyncio.create_task(vllm.engine.update_weights(wrong.items()))
        await asyncio.sleep(0.02)  # vLLM has paused, and this waits
        waiting = asyncio.create_task(vllm.engine.respond({"input": "Hi."}))
        answers = await asyncio.wait_for(asyncio.gather(update, waiting, return_exceptions=True), 60)
        with pytest.raises(EngineError) as later:
            await vllm.engine.respond({"input": "Hi."})
        return [*answers, later.value]

    errors = vllm.run(main())
    assert all(isinstance(error, EngineError) for error in errors)
    assert all("could not take new weights and has to be started anew" in str(error) for error in errors)
    assert vllm.engine.llm is None
    vllm.run(vllm.engine.start(), 300)
    assert vllm.ask("Hi.", max_output_tokens=1)["output"]


def test_vllm_is_not_left_running_by_a_start_that_was_cancelled():
    async def main():
        engine = make_engine("vllm:pocket")
        before = set(psutil.Process().children(recursive=True))
        start = asyncio.create_task(engine.start())
        while not set(psutil.Process().children(recursive=True)) - before:
            await asyncio.sleep(0.05)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        await engine.aclose()
        deadline = time.monotonic() + 120
        while any(child.name().startswith("VLLM") for child in living(before)) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        assert engine.llm is None
        return [child.name() for child in living(before)]

    def living(before):
        children = set(psutil.Process().children(recursive=True)) - before
        return [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]

    assert [name for name in asyncio.run(main()) if name.startswith("VLLM")] == []


def test_episodes_are_played_and_have_trajectories(vllm):
    async def play():
        rollouts = gym_llm.rollout("gym_llm/Arithmetic-v0", vllm.engine, episodes=64, concurrency=64)
        return [record async for record in rollouts]

    records = vllm.run(play())
    assert not [record["error"] for record in records if record["error"]]
    assert sum(record["reward"] for record in records) > 16
    for record in records:
        (segment,) = record["trajectory"]
        assert sum(segment["loss_mask"]) == record["response"]["usage"]["output_tokens"]


def test_closing_fails_what_is_under_way():
    async def main():
        engine = make_engine("vllm:pocket")
        await engine.start()
        request = {"input": [{"role": "user", "content": "Hi."}], "max_output_tokens": 1800, "ignore_eos": True}
        asked = asyncio.gather(*(engine.respond(request) for _ in range(2)), return_exceptions=True)
        while engine.llm.get_num_unfinished_requests() < 2:
            await asyncio.sleep(0.01)
        await engine.aclose()
        return await asyncio.wait_for(asked, 30)

    for error in asyncio.run(main()):
        assert isinstance(error, EngineError) and "closed" in str(error)
