"""Several processes that share a model's layers (tensor parallel) or its requests (data parallel)."""

import asyncio
import os
from importlib import resources

import pytest
import torch
from transformers import AutoModelForCausalLM

import gym_llm

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
QUESTIONS = [f"What is {n} + 17? Put the answer in \\boxed{{}}." for n in range(48)]


def check(vllm, model):
    """Every answer's log probabilities are the model's own, whichever process gave it."""

    async def ask():
        return await asyncio.gather(*(vllm.engine.respond({"input": question}) for question in QUESTIONS))

    for response in vllm.run(ask()):
        said = response["output"][-1]
        prompt, sampled = said["prompt_token_ids"], said["generation_token_ids"]
        with torch.no_grad():
            log_probs = model(torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        own = log_probs.gather(1, torch.tensor(sampled)[:, None])[:, 0].tolist()
        assert said["generation_log_probs"] == pytest.approx(own, abs=2e-3)


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize("kind", ["tensor_parallel_size", pytest.param("data_parallel_size", marks=NIGHTLY)])
def test_two_processes_sample_from_one_model_and_take_its_new_weights(start_vllm, monkeypatch, kind):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("Two workers of vLLM need two cores.")
    if kind == "tensor_parallel_size":  # vLLM's own choice is a NUMA node for each
        monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[1]}")
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval()
    vllm = start_vllm(dtype="float32", **{kind: 2})
    check(vllm, model)
    with torch.no_grad():
        model.model.norm.weight.mul_(0.9)
        for layer in model.model.layers:
            layer.mlp.up_proj.weight.mul_(1.1)
    vllm.run(vllm.engine.update_weights(model.state_dict().items()))
    check(vllm, model)

    async def play():
        return [record async for record in gym_llm.rollout("gym_llm/Weather-v0", vllm.engine, episodes=64)]

    records = vllm.run(play())
    assert len(records) == 64 and not any(record["error"] for record in records)
