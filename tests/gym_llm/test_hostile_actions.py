"""A small run of benchmarks/hostile_actions.py, which plays a million."""

import json
import subprocess
import sys

import pytest
from testing import ROOT


@pytest.mark.nightly
def test_hostile_actions_raise_nothing_and_every_record_is_read_as_it_was_written() -> None:
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "hostile_actions.py"),
        "--actions",
        "4000",
        "--seed",
        "1000000",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (
        figures["actions"] >= 4000 and figures["wrong"] == 0 and figures["refused"] > 500 and figures["records"] > 500
    )
    assert figures["environments"] >= len(list((ROOT / "envs").glob("*/config.yaml"))) - 1
