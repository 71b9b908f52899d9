"""The real OpenRLHF: what its rollout actor is answered, and what its trainer makes of it."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_episodes_reach_the_trainers_batches_exactly() -> None:
    counts = in_peer("openrlhf", "openrlhf_episodes.py")
    assert counts["episodes"] == 1000
    assert counts["turns"] > 2000
    assert counts["masked"] > 100 and counts["mixed_groups"] > 50
    assert counts["cut"] > 0
    assert counts["example"] == 64
