"""One vLLM for all shards of a run, and the command line."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

import gym_llm
from gym_llm.engines import make_engine
from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.errors import EngineUnavailable
from gym_llm.rollouts.ray.shared_engine import shared_engine

POCKET = MODEL_PATH


def vllm_processes():
    """The engine cores that this process, or Ray for it, has started; one of an earlier test may still be ending."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if "".join(process.cmdline()).startswith("VLLM::EngineCore"):
                found.add(process.pid)
        except psutil.Error:
            pass  # ended meanwhile
    return found


def test_shards_share_one_vllm_over_several_rollouts_and_weights():
    async def main():
        before = vllm_processes()
        async with shared_engine("vllm:pocket") as spec:
            runs = []
            for _ in range(2):
                rollouts = gym_llm.rollout("gym_llm/Arithmetic-v0", spec, episodes=64, concurrency=32, workers=2)
                runs.append([record async for record in rollouts])
                async with make_engine(spec) as client:
                    await client.update_weights(POCKET)
                    await client.update_weights(load_file(f"{POCKET}/model.safetensors").items())
            started = vllm_processes() - before
        return started, runs

    started, runs = asyncio.run(main())
    assert len(started) == 1
    for records in runs:
        assert len(records) == 64 and not [record["error"] for record in records if record["error"]]
        assert all(record["trajectory"] for record in records)


@pytest.mark.nightly
def test_workers_share_the_vllm_that_a_spec_names():
    records = gym_llm.collect("gym_llm/Arithmetic-v0", "vllm:pocket", episodes=32, workers=2)
    assert len(records) == 32 and not [record["error"] for record in records if record["error"]]
    assert {record["response"]["model"] for record in records} == {"pocket"}


def test_the_command_line_plays(tmp_path):
    output = tmp_path / "out.jsonl"
    command = [str(Path(sys.executable).with_name("gym-llm")), "rollout", "gym_llm/Arithmetic-v0", "--quiet"]
    command += ["--engine", "vllm:pocket", "--episodes", "16", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(records) == 16 and all(record["trajectory"] for record in records)


def test_a_model_that_does_not_exist_is_one_sentence():
    with pytest.raises(EngineUnavailable, match=r"Cannot load the model /no/such/model: there is no such folder"):
        asyncio.run(make_engine("vllm:/no/such/model").start())


def test_an_engine_argument_that_vllm_does_not_have_is_named():
    with pytest.raises(EngineUnavailable, match=r"tensor_paralel_size.*did you mean tensor_parallel_size"):
        asyncio.run(make_engine("vllm:pocket", tensor_paralel_size=2).start())
