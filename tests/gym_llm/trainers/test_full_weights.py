"""Weights that two processes share, gathered: FSDP 1 and 2, and DeepSpeed's ZeRO-3, each the real one, over gloo."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from peers import peer_python
from testing import POCKET, ROOT
from transformers import AutoModelForCausalLM

from gym_llm.engines.weights import weights_folder
from gym_llm.trainers.shared.full_weights import full_weights

pytestmark = pytest.mark.slow


def run_in_two(python, way, adapters):
    script = ROOT / "tests" / "importable" / "gathering.py"
    command = [str(python), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    folder = Path(python).parent
    ninja = next(folder.parent.glob("lib/python*/site-packages/bin"), folder)  # where pip has put its program
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PATH": os.pathsep.join([str(ninja), os.environ["PATH"]]),
        "DS_ACCELERATOR": "cpu",
        "TORCH_EXTENSIONS_DIR": str(folder.parent / "torch_extensions"),  # DeepSpeed compiles what processes share
    }
    process = subprocess.Popen(
        [*command, way, adapters],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=540)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # torchrun ends the two, which may wait for one another
        said, _ = process.communicate(timeout=30)
        pytest.fail(f"It has not ended: {said[-6000:]}")
    assert process.returncode == 0, said[-6000:]
    assert said.count("{}") == 2


@pytest.mark.parametrize(
    ("way", "adapters"),
    [
        ("fsdp2", "none"),
        pytest.param("fsdp2", "adapters", marks=pytest.mark.nightly),
        pytest.param("fsdp1", "none", marks=pytest.mark.nightly),
        pytest.param("fsdp1", "adapters", marks=pytest.mark.nightly),
        # Its units hold one flat tensor each; there it takes no adapters.
        pytest.param("fsdp1-flat", "none", marks=pytest.mark.nightly),
    ],
)
def test_what_fsdp_has_sharded_is_gathered(way, adapters):
    run_in_two(sys.executable, way, adapters)


@pytest.mark.nightly
@pytest.mark.parametrize("adapters", ["none", "adapters"])
def test_what_zero_3_has_sharded_is_gathered(adapters, monkeypatch):
    if not shutil.which("c++") or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("DeepSpeed compiles what its processes share: there is no C++ compiler, or no Python.h.")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    monkeypatch.setenv("DS_BUILD_OPS", "0")
    run_in_two(peer_python("deepspeed"), "zero3", adapters)


def test_weights_that_are_not_sharded_are_those_of_the_model():
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    with weights_folder(full_weights(model)) as one, weights_folder(model.state_dict().items()) as other:
        assert (Path(one) / "model.safetensors").read_bytes() == (Path(other) / "model.safetensors").read_bytes()
