"""RolloutWorker with engines that are made already, and how they are given the weights of TRL's AsyncGRPOTrainer."""

import importlib.util
import os
import weakref

import pytest
import torch
from random_talk import RandomModel, tokenizer
from testing import POCKET

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl.experimental.async_grpo import AsyncGRPOConfig

from gym_llm.engines import make_engine
from gym_llm.trainers.shared.trainer_engine import TrainerEngine
from gym_llm.trainers.trl import RolloutWorker

pytestmark = pytest.mark.slow


def worker_of(engine, folder, **changed):
    fields = {"token_budget": 0, "use_cpu": True, "bf16": False, "report_to": "none", **changed}
    return RolloutWorker("gym_llm/Arithmetic-v0", AsyncGRPOConfig(str(folder), **fields), engine=engine)


def test_an_engine_in_this_process_is_known_by_what_it_is(tmp_path):
    with pytest.raises(ValueError, match="top_k=5"):
        worker_of(make_engine("pocket"), tmp_path, top_k=5)


def test_a_vllm_engine_says_itself_which_log_probabilities_it_reports(tmp_path, monkeypatch):
    find = importlib.util.find_spec  # it is made without vLLM, and never started
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: find("json" if name == "vllm" else name))
    processed = make_engine("vllm:pocket", logprobs_mode="processed_logprobs")
    assert worker_of(processed, tmp_path, temperature=0.5, top_k=5).weight_transfer is not None
    with pytest.raises(ValueError, match=r"temperature=0\.5"):
        worker_of(make_engine("vllm:pocket"), tmp_path, temperature=0.5)


def test_weights_leave_the_trainers_device_one_after_the_other(tmp_path):
    engine = make_engine(f"transformers:{POCKET}")
    worker = worker_of(engine, tmp_path)
    try:
        worker.weight_transfer.init_weight_transfer()
        model = engine._model
        changed = {name: tensor + 1 for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
        alive, most = weakref.WeakSet(), 0

        def gathered():
            nonlocal most
            for name, tensor in changed.items():
                whole = torch.stack([tensor, tensor], dim=-1)[..., 0]  # spread out: not the memory that is written
                alive.add(whole)
                most = max(most, len(alive))
                yield name, whole
                del whole

        worker.weight_transfer.send_weights(gathered())
        assert most <= 2 < len(changed)
        own = model.state_dict()
        assert all(torch.equal(own[name], tensor) for name, tensor in changed.items())
    finally:
        worker.stop()


def test_an_engine_that_takes_no_weights_lets_their_gathering_end(tmp_path):
    loaded = tokenizer("strips_thinking")
    worker = worker_of(TrainerEngine(RandomModel(loaded), loaded, history="template"), tmp_path)
    weights = iter([("one", torch.zeros(1)), ("two", torch.zeros(1))])
    worker.weight_transfer.send_weights(weights)
    assert next(weights, None) is None
