"""The real Atropos: its server, and what its trainer makes of the groups that the server hands out."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_episodes_reach_the_trainers_batches_exactly() -> None:
    counts = in_peer("atropos", "atropos.py")
    assert counts["episodes"] == 1000
    assert counts["rows"] == counts["segments"] == 8 * counts["groups"] >= 200
    assert counts["masked"] > 100
    assert counts["groups"] == counts["whole"] < 125
