"""prime-rl's samples, by its documented types: it is on no package index."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_episodes_are_the_samples_that_prime_rl_decodes() -> None:
    counts = in_peer("prime_rl", "prime_rl_samples.py")
    assert counts["episodes"] == 1000
    assert counts["segments"] > 1000
    assert counts["masked"] > 100
