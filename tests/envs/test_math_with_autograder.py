"""MathWithAutograder: one grading of the last box."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

pytest.importorskip("math_verify")
ENV_ID = "gym_llm/MathWithAutograder-v0"
TASK = {"question": "Find all f.", "expected_answer": "f(x) = 2x, f(x) = 0"}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("math_with_autograder")


@pytest.mark.parametrize(
    ("text", "reward"),
    [(r"\boxed{Correct}", 1.0), (r"\boxed{Incorrect}", 0.0), (r"Not \boxed{Incorrect}: \boxed{Correct}", 1.0)],
)
def test_the_last_grade_counts(text: str, reward: float) -> None:
    got, info = judged(ENV_ID, TASK, r"First \boxed{1}, then \fbox{f is 0 or 2x}", text)
    assert got == reward
    asked = info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]
    assert "<|submitted answer|>\nf is 0 or 2x\n" in asked and r"\boxed{Correct} or \boxed{Incorrect}" in asked


def test_as_nemo_gym_reads_it_the_first_grade_counts() -> None:
    text = r"Not \boxed{Incorrect}: \boxed{Correct}"
    assert judged(ENV_ID, TASK, r"\boxed{0}", text, conform="nemo")[0] == 0.0
