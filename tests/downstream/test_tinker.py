"""Our environments in the real Tinker cookbook: its rollout loop, its groups, and its data."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_random_episodes_are_data_exactly():
    counts = in_peer("tinker", "tinker_cookbook_episodes.py")
    assert counts["scored"] + counts["masked"] >= 1000
    assert counts["data"] > 1000 and counts["masked"] > 100
    assert counts["record_data"] > 1000 and counts["record_masked"] > 100
