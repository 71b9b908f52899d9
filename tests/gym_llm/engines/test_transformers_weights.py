"""A transformers engine that is given other weights while it runs."""

import asyncio
import threading

import pytest
import torch
from testing import POCKET
from transformers import AutoModelForCausalLM, AutoTokenizer

from gym_llm.engines import WeightSync, transformers
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.errors import EngineError
from gym_llm.tokens.weight_versions import each_version

pytestmark = pytest.mark.slow

REQUEST = {"input": [{"role": "user", "content": "What is 12 + 31? Put the answer in \\boxed{}."}]}


@pytest.fixture
def model():
    return AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval()


@torch.no_grad()
def log_probs(model, response):
    """What a model thinks of the tokens that a response was sampled as."""
    item = response["output"][-1]
    prompt, sampled = item["prompt_token_ids"], item["generation_token_ids"]
    scores = model(input_ids=torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return scores.gather(1, torch.tensor(sampled)[:, None])[:, 0].tolist()


def reported(response):
    return response["output"][-1]["generation_log_probs"]


def run(check, **options):
    async def main():
        async with TransformersEngine(POCKET, device="cpu", threads=1, **options) as engine:
            await asyncio.wait_for(check(engine), 120)

    asyncio.run(main())


def changed(model):
    with torch.no_grad():
        model.model.norm.weight.mul_(0.7)
    return model


@pytest.mark.parametrize("way", ["tensors", "folder"])
def test_it_samples_with_the_weights_that_it_was_given(model, way, tmp_path):
    async def check(engine):
        assert isinstance(engine, WeightSync) and engine.capabilities.weights
        before = await engine.respond(REQUEST, episode_id="a")
        assert reported(before) == pytest.approx(log_probs(model, before), abs=1e-4)
        changed(model).save_pretrained(tmp_path)
        await engine.update_weights(model.state_dict().items() if way == "tensors" else tmp_path)
        after = await engine.respond(REQUEST, episode_id="a")
        assert reported(after) == pytest.approx(log_probs(model, after), abs=1e-4)
        assert reported(after)[0] != pytest.approx(reported(before)[0], abs=1e-3)

    run(check)


def test_what_is_under_way_is_answered_with_the_old_weights_and_what_comes_with_the_new(model):
    new = changed(AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval())

    async def check(engine):
        under_way = [asyncio.create_task(engine.respond(REQUEST, episode_id=str(n))) for n in range(8)]
        await asyncio.sleep(0)
        update = asyncio.create_task(engine.update_weights(new.state_dict().items()))
        await asyncio.sleep(0)
        later = await asyncio.gather(*(engine.respond(REQUEST, episode_id=str(n)) for n in range(8)))
        await update
        for response in await asyncio.gather(*under_way):
            assert reported(response) == pytest.approx(log_probs(model, response), abs=1e-4)
        for response in later:
            assert reported(response) == pytest.approx(log_probs(new, response), abs=1e-4)

    run(check)


@pytest.mark.parametrize("mode", ["wait", "recompute", "keep"])
def test_each_token_carries_the_version_of_the_weights_that_sampled_it(model, mode):
    others = changed(AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval())
    models = {0: model, 5: others, 6: model}

    async def check(engine):
        under_way = [asyncio.create_task(engine.respond(REQUEST, episode_id=str(n))) for n in range(8)]
        for version in (5, 6):
            await asyncio.sleep(0.05)
            await engine.update_weights(models[version].state_dict().items(), mode=mode, version=version)
            under_way.append(asyncio.create_task(engine.respond(REQUEST, episode_id=f"after {version}")))
        assert engine.weight_version == 6
        responses = await asyncio.gather(*under_way)
        seen = set()
        for response in responses:
            item = response["output"][-1]
            versions = each_version(item.get("generation_weight_versions"), len(item["generation_token_ids"]))
            assert versions == sorted(versions)
            assert mode != "wait" or len(set(versions)) == 1
            seen |= set(versions)
            given = {version: log_probs(models[version], response) for version in set(versions)}
            right = [given[version][place] for place, version in enumerate(versions)]
            if mode != "keep":  # there the keys and values are those of several
                assert reported(response) == pytest.approx(right, abs=1e-4)
        assert seen >= {0, 6}
        assert each_version(responses[-1]["output"][-1]["generation_weight_versions"], len(reported(responses[-1])))

    run(check)


def test_updates_at_the_same_time_have_versions_of_their_own(model):
    async def check(engine):
        await asyncio.gather(*(engine.update_weights(model.state_dict().items(), mode="recompute") for _ in range(3)))
        assert engine.weight_version == 3

    run(check)


def test_an_engine_that_is_closed_answers_everybody_who_waits(model):
    async def check(engine):
        held, release = threading.Event(), threading.Event()
        engine._errands.add(lambda: (held.set(), release.wait(10)))
        engine._jobs.put(transformers._WAKE)
        await asyncio.to_thread(held.wait)
        waiting = [
            asyncio.create_task(each)
            for each in (
                engine.score([1, 2]),
                engine.respond(REQUEST),
                engine.update_weights(model.state_dict().items(), mode="keep"),
            )
        ]
        await asyncio.sleep(0.3)
        closing = asyncio.create_task(engine.aclose())
        await asyncio.sleep(0.1)
        release.set()
        ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
        assert isinstance(ended[1], EngineError) and "is closed" in str(ended[1])
        await closing

    run(check)


def test_an_engine_that_fails_in_the_midst_of_an_update_fails_what_is_under_way(model, monkeypatch):
    async def check(engine):
        under_way = [asyncio.create_task(engine.respond(REQUEST, episode_id=str(n))) for n in range(3)]
        await asyncio.sleep(0.05)
        monkeypatch.setattr(engine._decoder, "add", lambda sequences: 1 / 0)
        for waiting in (engine.update_weights(model.state_dict().items(), mode="recompute"), *under_way):
            with pytest.raises(EngineError, match="division by zero"):
                await waiting
        with pytest.raises(EngineError, match="stopped"):
            await engine.score([1, 2])

    run(check)


@pytest.mark.parametrize("wrong", [{"mode": "pause"}, {"version": -1}, {"version": 1.5}, {"version": True}])
def test_a_mode_or_a_version_that_does_not_exist_changes_nothing(model, wrong):
    async def check(engine):
        with pytest.raises(ValueError, match=r"(mode|version) is"):
            await engine.update_weights(model.state_dict().items(), **wrong)
        assert engine.weight_version == 0
        assert "generation_weight_versions" not in (await engine.respond(REQUEST))["output"][-1]

    run(check)


def test_weights_that_do_not_fit_are_refused_and_it_goes_on_with_those_that_it_has(model):
    weights = model.state_dict()
    name = "model.layers.0.mlp.up_proj.weight"
    wrong = {
        "is (3, 3), there it is": {**weights, name: torch.zeros(3, 3)},
        "other is (2,), which has no such tensor": {**weights, "other": torch.zeros(2)},
        "1 are missing, e.g. " + name: {key: tensor for key, tensor in weights.items() if key != name},
    }

    async def check(engine):
        before = await engine.respond({**REQUEST, "temperature": 0})
        for message, tensors in wrong.items():
            zeros = {key: torch.zeros_like(tensor) for key, tensor in tensors.items()}
            with pytest.raises(EngineError) as caught:
                await engine.update_weights(zeros.items())
            assert message in str(caught.value)
        with pytest.raises(FileNotFoundError):
            await engine.update_weights("/no/such/folder")
        after = await engine.respond({**REQUEST, "temperature": 0})
        assert reported(after) == pytest.approx(reported(before), abs=1e-6)

    run(check)


def test_asleep_it_answers_nobody_and_takes_no_weights(model):
    async def check(engine):
        await engine.sleep()
        waiting = asyncio.create_task(engine.respond(REQUEST))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        with pytest.raises(EngineError, match="`wake_up` comes before"):
            await engine.update_weights(model.state_dict().items())
        await engine.wake_up()
        assert (await waiting)["output"]
        await engine.sleep()
        waiting = asyncio.create_task(engine.respond(REQUEST))
        await asyncio.sleep(0)
        await engine.aclose()
        with pytest.raises(EngineError, match="is closed"):
            await waiting

    run(check)


def test_the_callers_own_model_is_given_no_weights(model):
    engine = TransformersEngine.of(model, AutoTokenizer.from_pretrained(POCKET))
    assert not engine.capabilities.weights

    async def update():
        async with engine:
            await engine.update_weights(model.state_dict().items())

    with pytest.raises(EngineError, match="is the caller's"):
        asyncio.run(update())
