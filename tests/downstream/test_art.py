"""Our episodes in the real ART: its groups, its tokenisation, its packed tensors."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_random_episodes_are_tokenised_exactly():
    counts = in_peer("art", "art_episodes.py")
    assert counts["episodes"] == 1000 and counts["exact"] + counts["masked"] == 1000
    assert counts["segments"] > 1000 and counts["masked"] > 100
