"""Our episodes in rLLM's own types, up to its groups of trajectories."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_random_episodes_are_steps_exactly():
    counts = in_peer("rllm", "rllm_episodes.py")
    assert counts["episodes"] == 1000 and counts["segments"] > 1000 and counts["masked"] > 100
