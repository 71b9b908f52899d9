"""ProofVerification: near the expert's score, and well founded."""

from __future__ import annotations

from typing import Any

import pytest
from judging import judged

from gym_llm.errors import DataError

ENV_ID = "gym_llm/ProofVerification-v0"
TASK: dict[str, Any] = {
    "problem": "Prove it.",
    "proof": "Trivial.",
    "ground_truth_judgement": "A gap.",
    "ground_truth_verify_score": 0.5,
}


@pytest.mark.parametrize(("own", "near"), [("0.5", 1.0), ("1", 0.5), ("\\frac{1}{2}", 1.0)])
def test_both_scores_count(own: str, near: float) -> None:
    reward, info = judged(ENV_ID, TASK, f"<think>\\boxed{{0}}</think>It has a gap. \\boxed{{{own}}}", "\\boxed{0.5}")
    assert (reward, info["r_score"], info["r_meta"]) == (near * 0.5, near, 0.5)
    asked = info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]
    assert all(text in asked for text in ("Prove it.", "Trivial.", "A gap.", "It has a gap."))


def test_what_is_worth_nothing_anyway_is_not_judged_but_upstream_it_is() -> None:
    row = {**TASK, "ground_truth_verify_score": 0}
    assert judged(ENV_ID, row, "\\boxed{1}")[0] == 0.0
    assert judged(ENV_ID, row, "\\boxed{1}", "\\boxed{1}", conform="nemo")[0] == 0.0


@pytest.mark.parametrize(
    ("row", "answer", "reason"),
    [
        (TASK, "", "empty_response"),
        (TASK, "Fine.", "invalid_boxed_score"),
        ({**TASK, "proof": "x" * 40_001}, "\\boxed{1}", "proof_too_long"),
        (TASK, "x" * 20_001 + "\\boxed{1}", "verification_too_long"),
    ],
)
def test_what_cannot_be_scored_asks_nobody(row: dict[str, Any], answer: str, reason: str) -> None:
    assert judged(ENV_ID, row, answer)[1]["reason"] == reason


def test_a_gold_score_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match="is 0, "):
        judged(ENV_ID, {**TASK, "ground_truth_verify_score": 0.7}, "\\boxed{1}")
