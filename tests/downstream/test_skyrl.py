"""SkyRL's own classes take our episodes, up to the training batch and its advantages; see peers/skyrl.py."""

from __future__ import annotations

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow


def test_a_thousand_episodes_reach_the_batch_of_skyrl_exactly() -> None:
    counts = in_peer("skyrl", "skyrl.py")
    rows, one_row = counts["rows"], counts["one_row"]
    assert rows["episodes"] == one_row["episodes"] == 1000
    assert rows["segments"] > 2000 and one_row["segments"] == 1000
    assert rows["masked"] > 200 and one_row["masked"] > 200
    assert counts["filtered"]["episodes"] == counts["one_number"]["episodes"] == 200
    text = counts["text"]
    assert text["text_episodes"] > 200 and text["called"] > 100 and text["was_answered"] > 10
    assert counts["example"]["episodes"] == 64
    assert counts["experts"]["with_experts"] > 30 and counts["experts"]["without"] > 20
