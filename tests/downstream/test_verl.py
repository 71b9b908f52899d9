"""The real verl: its workers, TransferQueue, replay buffer and advantages, with the configuration of examples/verl."""

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_episodes_reach_verls_batches_exactly() -> None:
    counts = in_peer("verl", "verl.py")
    assert counts["template_episodes"] == 1000
    assert counts["template_rows"] > 1000
    assert counts["template_masked"] > 140
    assert counts["append_rows"] == counts["append_episodes"] - counts["append_masked"]
    assert counts["rewarded_turns"] > 20
    assert counts["data_proto"] > 60
