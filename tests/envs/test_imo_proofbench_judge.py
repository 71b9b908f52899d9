"""IMOProofBenchJudge: equal, or 6 points of 7."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

pytest.importorskip("math_verify")
ENV_ID = "gym_llm/IMOProofBenchJudge-v0"
TASK = {"problem": "Show it.", "reference_solution": "So.", "rubric": "(Almost) A gap.", "expected_answer": " "}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("imo_proofbench_judge")


@pytest.mark.parametrize(
    ("text", "reward", "theirs"),
    [
        ("<points>7 out of 7</points>", 1.0, 1.0),
        ("<points>1 out of 7</points>", 0.0, 0.0),
        ("Judgement: Yes … <points>1 out of 7</points>", 0.0, 1.0),
        ("**Judgement**: No", 0.0, 0.0),
        ("\\boxed{Correct}", 1.0, 1.0),
    ],
)
def test_points_go_before_words_and_upstream_after(text: str, reward: float, theirs: float) -> None:
    got, info = judged(ENV_ID, TASK, "It is \\boxed{clear}.", text)
    assert (got, info["judge_correct"], info["extracted_answer"], info["judge_output"]) == (
        reward,
        reward,
        "clear",
        text,
    )
    assert judged(ENV_ID, TASK, "It is \\boxed{clear}.", text, conform="nemo")[0] == theirs


def test_an_answer_that_is_equal_is_not_judged() -> None:
    reward, info = judged(ENV_ID, {**TASK, "expected_answer": "$2^{10}$"}, "\\boxed{1024}")
    assert (reward, info["symbolic_correct"], info["any_correct"]) == (1.0, 1.0, 1.0)


def test_nothing_in_a_box_asks_nobody() -> None:
    assert judged(ENV_ID, TASK, "Clear.")[1]["extracted_answer"] == ""


def test_an_expected_text_that_is_no_mathematics_is_no_fault() -> None:
    assert (
        judged(ENV_ID, {**TASK, "expected_answer": "see {the"}, "\\boxed{x}", "<points>0 out of 7</points>")[0] == 0.0
    )


def test_the_expected_answer_word_for_word_needs_no_judge() -> None:
    task = {**TASK, "expected_answer": "$f(x) = x$ for all $x$"}
    assert judged(ENV_ID, task, "So \\boxed{$f(x)=x$ for all $x$.}")[0] == 1.0


def test_upstream_takes_the_first_judgement() -> None:
    text = "Judgement: no. Or rather Judgement: yes <points>9 out of 7</points>"
    _, info = judged(ENV_ID, TASK, "It is \\boxed{clear}.", text, conform="nemo")
    assert (info["judge_correct"], info["judge_points"]) == (0.0, 9)
