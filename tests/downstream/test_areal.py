"""The real AReaL: its groups, its check of trajectories and its batches, with the configuration of examples/areal."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_episodes_reach_areals_batches_exactly() -> None:
    counts = in_peer("areal", "areal.py")
    assert counts["episodes"] == 1200
    assert counts["segments"] > 1200
    assert counts["masked"] > 140
    assert counts["sampled"] > 20_000
