"""ProofJudge: a proof and an honest judgement of it."""

from __future__ import annotations

import pytest
from judging import judged

from gym_llm.errors import JudgeError

ENV_ID = "gym_llm/ProofJudge-v0"
TASK = {"problem": "Prove it."}
ANSWER = "<think>\\boxed{1}</think>## Solution\nTrivial.\n## Self Evaluation\nA gap. \\boxed{0.5}"


def test_the_reward_is_the_judges_score() -> None:
    reward, info = judged(ENV_ID, TASK, ANSWER, "Not \\boxed{0}. \\boxed{1}")
    assert (reward, info["r_y"], info["s_prime"]) == (1.0, 1.0, 0.5)
    asked = info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]
    assert "Trivial." in asked and "A gap." not in asked
    assert judged(ENV_ID, TASK, ANSWER, "\\boxed{\\frac{1}{2}}", alpha=2.0)[0] == 1.0


def test_an_honest_judgement_can_count_too() -> None:
    reward, info = judged(ENV_ID, TASK, ANSWER, "\\boxed{1}", "\\boxed{1}", alpha=0.5, beta=0.5)
    assert (reward, info["r_meta"]) == (0.5 + 0.5 * 0.5, 1.0)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty_response"),
        ("Trivial.", "missing_solution_header"),
        ("## Solution\nTrivial.", "missing_self_eval_header"),
        ("## Solution\nTrivial.\n## Self Evaluation\n\\boxed{0.7}", "invalid_boxed_score"),
        ("## Solution\n" + "x" * 40_001 + "\n## Self Evaluation\n\\boxed{1}", "proof_too_long"),
        ("## Solution\nx\n## Self Evaluation\n" + "x" * 20_001 + "\\boxed{1}", "self_verification_too_long"),
    ],
)
def test_what_has_not_the_form_asks_nobody(answer: str, reason: str) -> None:
    reward, info = judged(ENV_ID, TASK, answer)
    assert (reward, info["reason"]) == (0.0, reason)


def test_thinking_may_have_to_end() -> None:
    assert (
        judged(ENV_ID, TASK, ANSWER.partition("</think>")[2], assert_think_end=True)[1]["reason"] == "missing_think_end"
    )


def test_a_judge_without_a_score_masks_and_is_zero_upstream() -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, ANSWER, "Fine.")
    assert judged(ENV_ID, TASK, ANSWER, "\\boxed{\\frac{1}{2}}", conform="nemo")[0] == 0.0
