"""MultiChallenge: questions about the last reply, each judged alone."""

from __future__ import annotations

import gymnasium as gym
import pytest
from judging import judged

from gym_llm.errors import JudgeError

ENV_ID = "gym_llm/MultiChallenge-v0"
RUBRIC = [
    {"question": "Is it short?", "weight": 3.0},
    {"question": "Has it nuts?", "pass_criteria": "no"},
]
TASK = {"rubric": RUBRIC, "context": "[USER]: Hi"}
YES, NO = "[[YES]]", "[[NO]]"


@pytest.mark.parametrize(
    ("mode", "reward"),
    [("mean", 0.5), ("min", 0.0), ("max", 1.0), ("all", 0.0), ("any", 1.0), ("weighted", 0.75), ("points", 0.75)],
)
def test_the_items_scores_become_one(mode: str, reward: float) -> None:
    got, info = judged(ENV_ID, TASK, "<think>Hm.</think> Nut cake.", YES, YES, aggregation_mode=mode)
    assert (got, info["num_passed"], info["num_total"], info["aggregation_mode"]) == (reward, 1, 2, mode)
    assert info["generated_response"] == "Nut cake." and info["context"] == "[USER]: Hi"
    short, nuts = info["rubric_evaluations"]
    assert (short["verdict"], short["score"], short["weight"]) == ("YES", 1.0, 3.0)
    assert (nuts["verdict"], nuts["score"], nuts["pass_criteria"]) == ("YES", 0.0, "no")
    assert "Nut cake." in nuts["judge_prompt"] and nuts["judge_response"] == YES


def test_the_items_keep_their_order_and_may_be_judged_one_after_another() -> None:
    assert judged(ENV_ID, TASK, "Cake.", YES, NO)[0] == 1.0
    assert judged(ENV_ID, TASK, "Cake.", NO, NO, parallel_evaluation=False)[0] == 0.5


def test_rubric_and_conversation_may_stand_in_the_metadata() -> None:
    said = [
        {"role": "user", "content": "A"},
        {"role": "thinking", "content": "B"},
        {"role": "assistant", "content": "C"},
    ]
    _, info = judged(ENV_ID, {"metadata": {"rubric": RUBRIC[:1], "messages": said}}, "Cake.", NO)
    assert info["context"] == "[USER]: A\n\n[ASSISTANT]: C"


@pytest.mark.parametrize(
    ("text", "verdict"), [("[[NO]], or [[YES]]", "YES"), ("Reason.\nYES indeed", "YES"), ("NOTE", "NO"), ("Hm.", "NO")]
)
def test_upstream_reads_words_in_the_last_line(text: str, verdict: str) -> None:
    task = {**TASK, "rubric": RUBRIC[:1]}
    assert judged(ENV_ID, task, "Cake.", text, conform="nemo")[1]["rubric_evaluations"][0]["verdict"] == verdict
    if "[[" not in text:
        with pytest.raises(JudgeError):
            judged(ENV_ID, task, "Cake.", text)


def test_an_empty_rubric_is_worth_nothing() -> None:
    assert judged(ENV_ID, {"rubric": []}, "Cake.")[0] == 0.0


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean"):
        gym.make(ENV_ID, judge="constant:x", aggregation_mode="meen")
