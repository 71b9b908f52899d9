"""Scores: the log probabilities that an engine gives to tokens that it is given."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from testing import POCKET, in_loop, serving

from gym_llm.engines import make_engine
from gym_llm.engines.around import EngineAround
from gym_llm.engines.constant import ConstantEngine
from gym_llm.engines.http import HTTPEngine
from gym_llm.errors import EngineError

ROW = [5, 9, 300, 42, 42, 7]


@pytest.mark.slow
def test_the_scores_are_the_models_own() -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    from gym_llm.engines import scoring

    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval()
    rows = [(ROW[: 1 + n % 6] * (1 + n), n % 3) for n in range(12)]

    def right(row: list[int]) -> Any:
        with torch.inference_mode():
            return model(input_ids=torch.tensor([row])).logits[0].log_softmax(-1)

    @in_loop
    async def check() -> None:
        async with make_engine("pocket") as engine:
            assert engine.capabilities.scores
            playing = asyncio.create_task(engine.respond({"input": [{"role": "user", "content": "What is 1 + 1?"}]}))
            scores = await asyncio.gather(*(engine.score(row, top_k=top_k) for row, top_k in rows))
            await playing
            for (row, top_k), found in zip(rows, scores, strict=True):
                wanted = right(row)
                assert found[0] is None and len(found) == len(found.likeliest) == len(row)
                own = [wanted[n, token].item() for n, token in enumerate(row[1:])]
                assert found[1:] == pytest.approx(own, abs=1e-4)
                assert [len(each) for each in found.likeliest] == [0] + [top_k] * (len(row) - 1)
                for place, likeliest in enumerate(found.likeliest[1:] if top_k else ()):
                    assert [log_prob for _, log_prob in likeliest] == pytest.approx(
                        wanted[place].topk(top_k).values.tolist(), abs=1e-4
                    )
            for wrong, error in (([], "no tokens"), ([1 << 20], "has token ids from 0"), ([1] * 10_000, "The context")):
                with pytest.raises(EngineError, match=error):
                    await engine.score(wrong)
            with pytest.raises(ValueError, match="top_k is"):
                await engine.score(ROW, top_k=21)
            for odd in ([1.7], ["5"], [True], [None]):
                with pytest.raises(ValueError, match="whole numbers"):
                    await engine.score(odd)  # type: ignore[arg-type]
        with pytest.raises(EngineError, match="is closed"):
            await engine.score(ROW)

    check()
    pieces, scoring._LOGITS = scoring._LOGITS, 3 * model.config.vocab_size  # read in pieces, with a cache
    try:
        (found,) = scoring.score_rows(model, [(ROW * 3, 2)])
        own = [right(ROW * 3)[n, token].item() for n, token in enumerate((ROW * 3)[1:])]
        assert found[1:] == pytest.approx(own, abs=1e-4) and len(found.likeliest[-1]) == 2
    finally:
        scoring._LOGITS = pieces


@pytest.mark.slow
def test_the_scores_with_an_adapter_are_pefts(tmp_path: Path) -> None:
    torch, peft = pytest.importorskip("torch"), pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    def saved(name: str, seed: int, **options: Any) -> Any:
        torch.manual_seed(seed)
        base = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
        config = peft.LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False, **options)
        model = peft.get_peft_model(base, config).eval()
        model.save_pretrained(str(tmp_path / name))
        return model

    def right(model: Any) -> list[float]:
        with torch.inference_mode():
            log_probs = model(input_ids=torch.tensor([ROW])).logits[0].log_softmax(-1)
        return [log_probs[n, token].item() for n, token in enumerate(ROW[1:])]

    wanted = {"one": saved("one", 1), "other": saved("other", 2, use_dora=True, lora_alpha=32)}

    @in_loop
    async def check() -> None:
        async with make_engine("pocket") as engine:
            alone = await engine.score(ROW)
            for _ in range(2):
                names = ["one", "other", "one", "other"]
                found = await asyncio.gather(*(engine.score(ROW, adapter=str(tmp_path / name)) for name in names))
                for name, scores in zip(names, found, strict=True):
                    assert scores[1:] == pytest.approx(right(wanted[name]), abs=1e-4) != alone[1:]
                assert await engine.score(ROW) == alone
                weights = {name: tensor * 1.01 for name, tensor in wanted["one"].base_model.model.state_dict().items()}
                weights = {
                    name.replace(".base_layer", ""): tensor for name, tensor in weights.items() if "lora" not in name
                }
                await engine.update_weights(weights.items())  # the adapters' model has them, too
                with torch.no_grad():
                    for model in wanted.values():
                        for name, tensor in model.base_model.model.named_parameters():
                            if "lora" not in name:
                                tensor.copy_(weights[name.replace(".base_layer", "")])
                alone = await engine.score(ROW)
            wanted["one"] = saved("one", 3)  # written again
            with torch.no_grad():
                for name, tensor in wanted["one"].base_model.model.named_parameters():
                    if "lora" not in name:
                        tensor.copy_(weights[name.replace(".base_layer", "")])
            scores = await engine.score(ROW, adapter=str(tmp_path / "one"))
            assert scores[1:] == pytest.approx(right(wanted["one"]), abs=1e-4)
            with pytest.raises(EngineError, match="There is no folder 'mine'"):
                await engine.score(ROW, adapter="mine")
            config = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
            (tmp_path / "one" / "adapter_config.json").write_text(json.dumps(config | {"r": 8}))
            with pytest.raises(EngineError, match="Cannot read the adapter"):
                await engine.score(ROW, adapter=str(tmp_path / "one"))
            assert await engine.score(ROW) == alone

    check()


@in_loop
async def test_an_engine_without_a_model_does_not_score() -> None:
    engine = ConstantEngine("yes")
    assert not engine.capabilities.scores
    with pytest.raises(EngineError, match="scores no tokens"):
        await engine.score(ROW)
    with pytest.raises(EngineError, match="scores no tokens"):
        await HTTPEngine("http://localhost:1/v1", model="x").score(ROW)


def completion(places: Any) -> dict[str, Any]:
    return {"choices": [{"text": "", "prompt_logprobs": places}]}


def entries(*pairs: tuple[int, float]) -> dict[str, Any]:
    return {str(token): {"logprob": log_prob, "rank": 1} for token, log_prob in pairs}


RIGHT = [None, *[entries((token, -1.0), (7, -0.5)) if token != 7 else entries((7, -0.5)) for token in ROW[1:]]]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (completion(RIGHT), ""),
        (completion(None), "no `prompt_logprobs`"),
        (completion(RIGHT[:-1]), "log probabilities of 5 tokens for 6"),
        (completion([None, *[entries((3, -1.0))] * 5]), "no scores"),
        (completion([None, *[entries(*((token, 2.0) for token in ROW))] * 5]), "not a number up to 0"),
        (completion([None, *[entries(*((token, float("nan")) for token in ROW))] * 5]), "no scores"),
        (completion([None, 5, 5, 5, 5, 5]), "no scores"),
        ([], "no scores"),
        ({"choices": "none"}, "no scores"),
        ("{", "not JSON"),
        (completion([None, *[{str(token): {"logprob": "-1"} for token in ROW}] * 5]), "not a number up to 0"),
    ],
)
@in_loop
async def test_a_vllm_server_scores_and_what_it_answers_is_checked(answer: Any, error: str) -> None:
    asked: list[Any] = []

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": POCKET, "max_model_len": 100}]})

    async def completions(request: web.Request) -> web.Response:
        asked.append(await request.json())
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(text=text, content_type="application/json")

    routes = {"/v1/models": models, "/v1/completions": completions}
    async with serving(routes) as url, HTTPEngine(f"{url}/v1", api="completions", tokenizer=POCKET) as engine:
        assert engine.capabilities.scores
        if error:
            with pytest.raises(EngineError, match=error):
                await engine.score(ROW, top_k=1)
        else:
            scores = await engine.score(ROW, top_k=1)
            assert scores == [None, -1.0, -1.0, -1.0, -1.0, -0.5]
            assert scores.likeliest == [[], *[[(7, -0.5)]] * 5]
            with pytest.raises(EngineError, match="The context"):
                await engine.score([1] * 100)
            assert await EngineAround(engine).score(ROW, adapter="mine") == scores
            assert asked.pop()["model"] == "mine"
    tries = 3 if error == "not JSON" else 1
    assert asked == tries * [{**asked[0], "prompt": ROW, "max_tokens": 1, "prompt_logprobs": 1, "model": POCKET}]
