"""A small run of benchmarks/durable_verifiers.py, which plays every verifier."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from testing import ROOT

ENVS = ["gym_llm/FollowUp-v0", "gym_llm/ConversationalToolUse-v0", "gym_llm/SimpleQA-v0", "gym_llm/Debate-v0"]


@pytest.mark.slow
@pytest.mark.parametrize("envs", [ENVS, pytest.param([], marks=pytest.mark.nightly)], ids=["some", "all"])
def test_interrupted_episodes_are_those_that_were_left_alone(envs):
    command = [sys.executable, "-W", "ignore", "benchmarks/durable_verifiers.py", *envs]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    figures = json.loads(ended.stdout.splitlines()[-1])
    assert figures["different"] == [], ended.stdout
    assert set(figures["equal"]) >= set(envs), ended.stdout
