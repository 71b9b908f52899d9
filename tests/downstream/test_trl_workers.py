"""RolloutFunc with one engine for many: episodes in Ray's workers, and several trainer processes."""

import json
import os
import subprocess
import sys

import pytest
import torch
from peft import LoraConfig
from testing import POCKET, ROOT
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl_process import off

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl import GRPOConfig, GRPOTrainer

from gym_llm.errors import EngineError
from gym_llm.rollouts.ray.connection import connect
from gym_llm.trainers.trl import RolloutFunc

pytestmark = pytest.mark.slow

ENGINE = f"transformers:{POCKET}"
OPTIONS = {"threads": 1}


@pytest.fixture
def make_trainer(tmp_path):
    """Builds a trainer of the pocket model, in float32."""

    def make(hook, *, function=None, **arguments):
        peft_config = arguments.pop("peft_config", None)
        config = {
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 200,
            "max_steps": 2,
            "learning_rate": 2e-3,
            "logging_steps": 1,
            "bf16": False,
            "use_cpu": True,
            "gradient_checkpointing": False,
            "report_to": "none",
            "save_strategy": "no",
            "disable_tqdm": True,
            **arguments,
        }
        return GRPOTrainer(
            AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32),
            args=GRPOConfig(str(tmp_path), **config),
            train_dataset=hook.dataset(8),
            processing_class=AutoTokenizer.from_pretrained(POCKET),
            rollout_func=function or hook,
            reward_funcs=[hook.reward, alternating],
            peft_config=peft_config,
        )

    return make


def alternating(completions, **_):
    """Differs within every group, so that each step moves the weights."""
    return [float(number % 2) for number in range(len(completions))]


def watched(hook, calls):
    def function(prompts, trainer):
        output = hook(prompts, trainer)
        calls.append((output, off(trainer.model, output)))
        return output

    return function


@pytest.mark.parametrize("adapters", [None, LoraConfig(target_modules="all-linear")], ids=["all weights", "adapters"])
def test_workers_share_an_engine_that_has_the_weights_of_every_step(make_trainer, adapters):
    calls = []
    with RolloutFunc("gym_llm/Weather-v0", engine=ENGINE, engine_options=OPTIONS, workers=2) as weather:
        trainer = make_trainer(weather, function=watched(weather, calls), peft_config=adapters)
        trainer.train()
        shards = {shard.description["pid"] for shard in weather._pool._shards._shards}
        assert len(shards) == 2 and os.getpid() not in shards
        torch.manual_seed(0)
        with torch.no_grad():
            for tensor in trainer.model.parameters():
                if tensor.requires_grad:
                    tensor.add_(torch.randn_like(tensor), alpha=0.02 if adapters is None else 0.3)
        # The same processes play on, with the weights as they are now, and another length counts.
        trainer.max_completion_length = 12
        output = weather(weather.dataset(2)["prompt"][:] * 4, trainer)
        assert off(trainer.model, output) < 1e-3
        assert max(map(len, output["completion_ids"])) == 12
        assert {shard.description["pid"] for shard in weather._pool._shards._shards} == shards
    assert len(calls) == 2
    for played, difference in calls:
        assert difference < 1e-3
        assert any(0 in mask for mask in played["env_mask"]) and not any(info["failed"] for info in played["env_info"])
    start = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    assert off(start, output) > 1e-2  # or the weights would not have moved


def test_workers_play_what_this_process_plays(make_trainer):
    """The engine's random numbers are by episode, so it makes no difference where an episode is played."""
    outputs = []
    for workers in (0, 2):
        with RolloutFunc(
            "gym_llm/Weather-v0", engine=ENGINE, engine_options={**OPTIONS, "seed": 3}, workers=workers
        ) as weather:
            outputs.append(weather(weather.dataset(4)["prompt"][:] * 2, make_trainer(weather)))
    here, there = outputs
    for name in ("prompt_ids", "completion_ids", "env_mask", "env_reward", "env_info"):
        assert here[name] == there[name]
    for one, other in zip(here["logprobs"], there["logprobs"], strict=True):
        assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.nightly
def test_an_engine_whose_process_has_died_is_given_the_weights_again(make_trainer):
    with RolloutFunc("gym_llm/Weather-v0", engine=ENGINE, engine_options=OPTIONS, workers=2) as weather:
        trainer = make_trainer(weather)
        with torch.no_grad():
            trainer.model.model.norm.weight.mul_(0.8)
        prompts = weather.dataset(4)["prompt"][:]
        assert off(trainer.model, weather(prompts, trainer)) < 1e-3
        ray = connect()
        ray.kill(ray.get_actor(weather._policy._playing._name), no_restart=False)
        for _ in range(3):  # what is played before somebody has noticed is lost
            output = weather(prompts, trainer)
            if not any(info["failed"] for info in output["env_info"]):
                break
        assert off(trainer.model, output) < 1e-3
        assert not any(info["failed"] for info in output["env_info"])


def test_a_worker_that_is_killed_costs_no_episode(make_trainer):
    with RolloutFunc("gym_llm/Weather-v0", engine=ENGINE, engine_options=OPTIONS, workers=2) as weather:
        trainer = make_trainer(weather)
        prompts = weather.dataset(4)["prompt"][:]
        weather(prompts, trainer)
        ray = connect()
        ray.kill(weather._pool._shards._shards[0].actor)
        output = weather(prompts, trainer)
        assert not any(info["failed"] for info in output["env_info"]) and off(trainer.model, output) < 1e-3


def test_workers_need_an_engine_that_they_can_ask():
    with pytest.raises(ValueError, match="in its own process, which workers cannot ask"):
        RolloutFunc("gym_llm/Weather-v0", workers=2)


def train_in_two(folder, *arguments):
    """What each of two processes played; see `trl_process`."""
    script = ROOT / "tests" / "importable" / "trl_process.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    command += [str(folder), POCKET, ENGINE, json.dumps(OPTIONS), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads((folder / rank).read_text()) for rank in "01"]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_processes_play_their_parts_of_a_group_with_the_main_ones_engine(tmp_path, workers):
    first, second = train_in_two(tmp_path, str(workers))
    assert len(first["calls"]) == len(second["calls"]) == 3
    for calls in zip(first["calls"], second["calls"], strict=True):
        tasks, _, failed, difference = zip(*calls, strict=True)
        assert len({*tasks[0], *tasks[1]}) == 1 and failed == (0, 0)
        assert max(difference) < 1e-3
    # One engine with one seed: episodes of the two processes have random numbers of their own all the same.
    said, said_by_the_other = ([call[1] for call in process["calls"]] for process in (first, second))
    assert said != said_by_the_other
    assert first["weights"] == second["weights"]


@pytest.mark.nightly
def test_a_process_whose_episodes_all_fail_does_not_end_the_training_of_the_others(tmp_path):
    first, second = train_in_two(tmp_path, "0", "one process without sandbox")
    assert [call[2] for call in first["calls"]] == [0] * 3
    assert [call[2] for call in second["calls"]] == [4] * 3


def test_what_cannot_be_stopped_hides_no_other_failure_and_leaves_nothing_behind(make_trainer, monkeypatch):
    weather = RolloutFunc("gym_llm/Weather-v0", engine=ENGINE, engine_options=OPTIONS)
    trainer = make_trainer(weather)
    prompts = weather.dataset(1)["prompt"][:]
    weather(prompts, trainer)

    async def fail():
        raise OSError("it does not stop")

    weather._policy._stack.push_async_callback(fail)
    trainer.model.register_parameter("unknown", torch.nn.Parameter(torch.zeros(1)))
    with pytest.raises(EngineError, match="unknown") as raised:
        weather(prompts, trainer)
    assert "it does not stop" in raised.value.__notes__[0]
    weather._policy._stack.push_async_callback(fail)
    with pytest.raises(OSError, match="does not stop"):
        weather.close()
    assert not weather._pool._thread.is_running
