"""MathWithJudge: the library first, then a judge who has to agree in both orders."""

from __future__ import annotations

import gymnasium as gym
import pytest
from judging import judged
from verifier_vectors import replay_all

pytest.importorskip("math_verify")
ENV_ID = "gym_llm/MathWithJudge-v0"
TASK = {"question": "How many?", "expected_answer": "a dozen"}
YES, NO = "[[A=B]]", "[[A!=B]]"


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("math_with_judge")


def test_what_the_library_finds_equal_is_not_judged() -> None:
    reward, info = judged(ENV_ID, {**TASK, "expected_answer": r"\frac{1}{2}"}, r"\boxed{0.5}")
    assert (reward, info["library_reward"], info["judge_evaluations"]) == (1.0, 1.0, None)


@pytest.mark.parametrize(
    ("texts", "reward"),
    [
        ((YES, YES), 1.0),
        ((YES, NO), 0.0),
        ((NO,), 0.0),
        (("At first [[A!=B]], but no: [[A=B]]", YES), 1.0),
        (("<think>[[A=B]]</think> [[A!=B]]",), 0.0),
    ],
)
def test_the_judge_has_to_find_them_equal_in_both_orders(texts: tuple[str, ...], reward: float) -> None:
    got, info = judged(ENV_ID, TASK, r"So \boxed{12 pieces}.", *texts)
    assert (got, info["library_reward"]) == (reward, 0.0)
    asked = [call["responses_create_params"]["input"][-1]["content"] for call in info["judge_evaluations"]]
    assert asked[0].index("a dozen") < asked[0].index("12 pieces")
    assert all(text.index("12 pieces") < text.index("a dozen") for text in asked[1:])


def test_as_nemo_gym_reads_it_the_first_label_counts() -> None:
    text = "At first [[A!=B]], but no: [[A=B]]"
    assert judged(ENV_ID, TASK, r"\boxed{12 pieces}", text, conform="nemo")[0] == 0.0


@pytest.mark.parametrize(
    "text", ["12", "Answer: 12", r"\boxed {12}", r"\boxed{12} \boxed{", r"\boxed{12} \boxed{ }", "$12$"]
)
def test_as_nemo_gym_reads_it_nothing_counts_without_a_complete_last_box(text: str) -> None:
    reward, info = judged(ENV_ID, {**TASK, "expected_answer": "12"}, text, conform="nemo")
    assert (reward, info["library_reward"], info["judge_evaluations"]) == (0.0, 0.0, None)
    _, info = judged(ENV_ID, TASK, r"\boxed{1} \boxed{f(x) = 1, 2}", NO, conform="nemo")
    assert "f(x) = 1, 2" in info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]


def test_the_judge_sees_the_whole_box() -> None:
    _, info = judged(ENV_ID, TASK, r"So \boxed{f(x) = 1, g(x) = 2}.", NO)
    assert "f(x) = 1, g(x) = 2" in info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]


def test_nothing_is_worth_nothing_and_asks_nobody() -> None:
    assert judged(ENV_ID, TASK, "  ")[0] == 0.0


def test_without_a_judge_the_library_decides() -> None:
    reward, info = judged(ENV_ID, TASK, r"\boxed{12}", judge=None)
    assert (reward, info["judge_evaluations"]) == (0.0, None)
    assert judged(ENV_ID, TASK, r"\boxed{12}", should_use_judge=False)[1]["judge_evaluations"] is None


def test_a_judge_that_is_to_be_used_has_to_be_given() -> None:
    with pytest.raises(ValueError, match="should_use_judge needs a judge"):
        gym.make(ENV_ID, should_use_judge=True)
