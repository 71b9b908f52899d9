"""UGPhysicsJudge: the judge knows the solution, and answers under a heading."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

pytest.importorskip("math_verify")
ENV_ID = "gym_llm/UGPhysicsJudge-v0"
TASK = {"question": "How high?", "expected_answer": "as high as it was", "solution": "By symmetry.", "subject": "CM"}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("ugphysics_judge")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("## Equivalence Judgement\nTRUE", "TRUE"),
        ("It might be FALSE.\n## Equivalence Judgement\n\n**true**\nThough FALSE is what I said.", "TRUE"),
        ("I say TRUE, or rather FALSE.", "FALSE"),
    ],
)
def test_the_verdict_under_the_heading_counts_else_the_last_word(text: str, verdict: str) -> None:
    reward, info = judged(ENV_ID, TASK, "As high as before.", text)
    assert (reward, info["extracted_verdict"], info["subject"]) == (float(verdict == "TRUE"), verdict, "CM")
    assert "By symmetry." in info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]


def test_the_librarys_verdict_is_reported_as_one() -> None:
    assert judged(ENV_ID, {**TASK, "expected_answer": "3"}, r"\boxed{3}")[1]["extracted_verdict"] == "TRUE"
    assert judged(ENV_ID, TASK, r"\boxed{3}", judge=None)[1]["extracted_verdict"] == "FALSE"


def test_what_cannot_be_read_is_a_no_for_nemo_gym() -> None:
    reward, info = judged(ENV_ID, TASK, "High.", "Untrue falsehoods.", conform="nemo")
    assert (reward, info["extracted_verdict"]) == (0.0, None)
