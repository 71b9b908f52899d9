"""The asynchronous example runs as it is started in the documentation, on a small scale."""

import json
import os
import subprocess
import sys

import pytest
from testing import ROOT

pytestmark = pytest.mark.slow


def test_three_steps_change_the_model(tmp_path):
    script = ROOT / "examples" / "train_trl_async.py"
    command = [sys.executable, str(script), "--steps", "3", "--batch", "16", "--held-out", "64"]
    run = subprocess.run(
        [*command, "--output", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    steps = [entry for entry in entries if "reward" in entry]
    assert [entry["step"] for entry in steps] == [1, 2, 3]
    assert all(entry["sample/staleness_max"] <= 1 for entry in steps)
    line = run.stdout.splitlines()[-1]
    assert line.startswith("held-out sums: mean reward 0.") and " after 3 steps in " in line

    import torch
    from safetensors.torch import load_file

    before = load_file(ROOT / "gym_llm/engines/pocket/model/model.safetensors")
    after = load_file(tmp_path / "model" / "model.safetensors")
    moved = [name for name in before if not torch.equal(before[name].float(), after[name].float())]
    assert len(moved) > len(before) / 2
