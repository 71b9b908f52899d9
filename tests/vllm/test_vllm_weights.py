"""Which weights sampled each token of a running vLLM, and what it gives to tokens that it is given."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from changing_weights import old_and_new, scores

from gym_llm.errors import EngineError
from gym_llm.tokens.weight_versions import each_version

LONG: Any = {"input": [{"role": "user", "content": "Tell me a tale."}], "ignore_eos": True, "max_output_tokens": 300}


@pytest.fixture(scope="module")
def models() -> list[Any]:
    return old_and_new()


@pytest.mark.parametrize("mode", ["wait", "recompute", "keep"])
def test_each_token_carries_the_version_of_the_weights_that_sampled_it(vllm: Any, models: list[Any], mode: Any) -> None:
    engine = vllm.engine
    first = engine.weight_version

    async def check() -> list[Any]:
        asked = [asyncio.create_task(engine.respond(LONG, episode_id=f"{mode}-{n}")) for n in range(12)]
        for number in (1, 0):
            await asyncio.sleep(0.4)
            await engine.update_weights(models[number].state_dict().items(), mode=mode)
            asked += [asyncio.create_task(engine.respond(LONG, episode_id=f"{mode}-{number}-{n}")) for n in range(4)]
        return await asyncio.gather(*asked)

    seen: set[int] = set()
    mixed = 0
    for response in vllm.run(check()):
        item = response["output"][-1]
        prompt, sampled = item["prompt_token_ids"], item["generation_token_ids"]
        versions = each_version(item.get("generation_weight_versions"), len(sampled))
        assert versions == sorted(versions)
        mixed += len(set(versions)) > 1
        seen |= set(versions)
        if mode != "keep":
            given = [scores(model, prompt + sampled)[len(prompt) - 1 :] for model in models]
            right = [given[(version - first) % 2][place] for place, version in enumerate(versions)]
            assert item["generation_log_probs"] == pytest.approx(right, abs=1e-3)
    assert seen <= {first, first + 1, first + 2} and first + 2 in seen
    assert (mixed > 0) == (mode != "wait")
    assert engine.weight_version == first + 2


def test_the_scores_are_the_models_own(vllm: Any, models: list[Any]) -> None:
    rows = [[5, 9, 300, 42, 42, 7, *range(50, 50 + n)] for n in range(10)]

    async def check() -> list[Any]:
        return await asyncio.gather(*(vllm.engine.score(row, top_k=2) for row in rows))

    for row, found in zip(rows, vllm.run(check()), strict=True):
        assert found[0] is None and found[1:] == pytest.approx(scores(models[0], row), abs=1e-3)
        assert [len(each) for each in found.likeliest] == [0, *[2] * (len(row) - 1)]
    assert vllm.run(vllm.engine.score([5, 6]))[1:] == pytest.approx(scores(models[0], [5, 6]), abs=1e-3)
    assert list(vllm.run(vllm.engine.score([5]))) == [None]
    with pytest.raises(EngineError, match="The context of"):
        vllm.run(vllm.engine.score([1] * 4096))


def test_an_adapter_is_refused(vllm: Any) -> None:
    with pytest.raises(EngineError, match="cannot score with an adapter"):
        vllm.run(vllm.engine.score([5, 9], adapter="mine"))
