"""New weights for a real `vllm serve`, by its routes for trainers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from changing_weights import POCKET, answers_during, old_and_new, scores
from transformers import AutoTokenizer

import gym_llm
from gym_llm import make_engine
from gym_llm.errors import EngineError
from gym_llm.tokens.weight_versions import each_version

LONG: Any = {"input": [{"role": "user", "content": "Tell me a tale."}], "max_output_tokens": 150}


@pytest.mark.parametrize("mode", ["wait", "recompute"])
def test_a_vllm_server_takes_weights(server: str, mode: Any) -> None:
    models = old_and_new()
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    options: Any = {"api": "completions", "tokenizer": POCKET, "takes_weights": "vllm-cpu"}

    async def play() -> list[Any]:
        async with make_engine(server, **options) as engine:

            async def change() -> None:
                for number in (1, 0):
                    await asyncio.sleep(0.3)
                    await engine.update_weights(models[number].state_dict().items(), mode=mode)
                with pytest.raises(EngineError, match="not 'keep'"):
                    await engine.update_weights(POCKET, mode="keep")
                assert engine.weight_version == 2

            return await answers_during(change, engine, LONG, 6)

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
