"""New weights for a real `vllm serve`, by its routes for trainers."""

from __future__ import annotations

import asyncio
import itertools
from importlib import resources
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import gym_llm
from gym_llm import make_engine
from gym_llm.errors import EngineError
from gym_llm.tokens.weight_versions import each_version

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
LONG: Any = {"input": [{"role": "user", "content": "Tell me a tale."}], "max_output_tokens": 150}


@torch.no_grad()
def scores(model: Any, ids: list[int]) -> list[float]:
    log_probs = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    return log_probs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


@pytest.mark.parametrize("mode", ["wait", "recompute"])
def test_a_vllm_server_takes_weights(server: str, mode: Any) -> None:
    models = [AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval() for _ in range(2)]
    with torch.no_grad():
        models[1].model.norm.weight.mul_(0.9)
        models[1].model.layers[0].mlp.up_proj.weight.mul_(1.1)
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    options: Any = {"api": "completions", "tokenizer": POCKET, "takes_weights": "vllm-cpu"}

    async def play() -> list[Any]:
        async with make_engine(server, **options) as engine:
            responses, is_updated = [], False

            async def ask(number: int) -> None:
                for turn in itertools.count():
                    is_last = is_updated
                    responses.append(await engine.respond(LONG, episode_id=f"{number}-{turn}"))
                    if is_last:
                        break

            asking = [asyncio.create_task(ask(number)) for number in range(6)]
            for number in (1, 0):
                await asyncio.sleep(0.3)
                await engine.update_weights(models[number].state_dict().items(), mode=mode)
            with pytest.raises(EngineError, match="not 'keep'"):
                await engine.update_weights(POCKET, mode="keep")
            assert engine.weight_version == 2
            is_updated = True
            await asyncio.gather(*asking)
            return responses

    seen, mixed = set(), 0
    for response in asyncio.run(asyncio.wait_for(play(), 200)):
        item = response["output"][-1]
        prompt, sampled = item["prompt_token_ids"], item["generation_token_ids"]
        versions = each_version(item.get("generation_weight_versions"), len(sampled))
        assert len(sampled) <= 150 and (len(set(versions)) == 1 or mode == "recompute")
        mixed += len(set(versions)) > 1
        seen |= set(versions)
        given = [scores(model, prompt + sampled)[len(prompt) - 1 :] for model in models]
        right = [given[version % 2][place] for place, version in enumerate(versions)]
        assert item["generation_log_probs"] == pytest.approx(right, abs=1e-3)
        ended = response.get("incomplete_details") is None
        text = tokenizer.decode(sampled[:-1] if ended else sampled, clean_up_tokenization_spaces=False)
        assert item["content"][0]["text"] == text
    assert seen == {0, 1, 2} and (mixed > 0) == (mode == "recompute")

    async def stream() -> None:
        played = {"group_size": 2, "concurrency": 4, "engine_options": options, "sampling": {"max_output_tokens": 16}}
        async with gym_llm.stream("gym_llm/Arithmetic-v0", server, **played) as groups:
            await anext(groups)
            await groups.update_weights(POCKET, mode=mode)
            while True:
                segments = [segment for record in await anext(groups) for segment in record["trajectory"]]
                if all(1 in segment.get("weight_versions", ()) for segment in segments):
                    break

    asyncio.run(asyncio.wait_for(stream(), 100))
