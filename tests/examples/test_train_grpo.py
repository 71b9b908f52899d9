"""The examples run as they are started in the README, on a small scale."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from testing import ROOT

pytestmark = pytest.mark.slow


def start(*arguments, **options):
    script = ROOT / "examples" / "train_grpo.py"
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def logged(folder, name):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(line["step"], line[name]) for line in lines if name in line]


def test_three_steps_of_grpo_change_the_model_and_leave_a_plot(tmp_path):
    training = start("--steps", "3", "--held-out", "64", "--output", str(tmp_path))
    printed, _ = training.communicate(timeout=240)
    assert training.returncode == 0, printed
    assert [step for step, _ in logged(tmp_path, "reward")] == [1, 2, 3]
    held_out = logged(tmp_path, "eval_reward")
    assert [step for step, _ in held_out] == [0, 1, 2, 3]
    # What the pocket model can do, give or take three standard deviations of 64 episodes.
    assert 0.6 < held_out[0][1] < 0.95
    assert f"64 held-out sums: mean reward {held_out[0][1]:.3f} at step 0, {held_out[3][1]:.3f} at step 3" in printed
    assert (tmp_path / "reward.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    import torch
    from safetensors.torch import load_file

    before = load_file(ROOT / "gym_llm/engines/pocket/model/model.safetensors")
    after = load_file(tmp_path / "model" / "model.safetensors")
    moved = [name for name in before if not torch.equal(before[name].float(), after[name].float())]
    assert len(moved) > len(before) / 2


@pytest.mark.nightly
def test_ctrl_c_leaves_what_there_is(tmp_path):
    training = start("--steps", "200", "--batch", "8", "--held-out", "16", "--output", str(tmp_path))
    lines = []
    while not any(line.startswith("step 20/") for line in lines):
        line = training.stdout.readline()
        assert line, "".join(lines)
        lines.append(line)
    time.sleep(0.2)
    training.send_signal(signal.SIGINT)
    printed, _ = training.communicate(timeout=60)
    assert training.returncode == 0, printed
    assert "Interrupted" in printed and "at step 20 " in printed
    assert len(logged(tmp_path, "reward")) >= 20
    assert (tmp_path / "reward.png").exists() and (tmp_path / "model" / "model.safetensors").exists()
