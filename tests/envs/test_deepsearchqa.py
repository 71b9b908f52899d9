"""DeepSearchQA: the F1 of the answers that a judge lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from judging import judged

from gym_llm.errors import JudgeError

ENV_ID = "gym_llm/DeepSearchQA-v0"
TASK = {"problem": "Which two?", "answer": "Oslo, Rome", "answer_type": "Set Answer"}


def grading(details: Any, *excessive: Any) -> str:
    return json.dumps({"Answer Correctness": {"Correctness Details": details, "Excessive Answers": list(excessive)}})


ONE, BOTH = grading({"Oslo": True, "Rome": False}), grading({"Oslo": True, "Rome": True})


@pytest.mark.parametrize(
    ("text", "f1", "names"),
    [
        (BOTH, 1.0, ["fully_correct"]),
        (ONE, 2 / 3, []),
        (grading({"Oslo": True, "Rome": True}, "Paris", "Bonn"), 2 / 3, ["correct_with_extraneous"]),
        (grading({"Oslo": False, "Rome": False}, "Paris"), 0.0, ["fully_incorrect"]),
        (f"First I thought:\n```json\n{ONE}\n```\nBut both are there:\n```json\n{BOTH}\n```", 1.0, ["fully_correct"]),
        (json.dumps({"Answer Correctness": {"Correctness Details": {"Oslo": True}}}), 1.0, ["fully_correct"]),
    ],
)
def test_the_reward_is_the_f1_of_the_answers(text: str, f1: float, names: list[str]) -> None:
    for kwargs in ({}, {"conform": "nemo"}):
        reward, info = judged(ENV_ID, TASK, "Oslo", text, **kwargs)
        assert reward == pytest.approx(f1)
        flags = ("fully_correct", "fully_incorrect", "correct_with_extraneous")
        assert [name for name in flags if info[name]] == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NULL",
        "{" * 5000,
        '{"Answer Correctness": null}',
        grading({}),
        grading({"Oslo": 1}),
        grading({"Oslo": True}, 3),
    ],
)
def test_a_grading_that_is_not_whole_masks_and_upstream_is_worth_nothing(text: str) -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "Oslo", text)
    assert judged(ENV_ID, TASK, "Oslo", text, conform="nemo")[0] == 0.0


def test_the_judge_sees_no_reasoning_and_is_not_asked_about_nothing() -> None:
    assert judged(ENV_ID, TASK, "<think>Oslo? Rome?")[0] == 0.0
    answer = "<think>Bonn?</think>Oslo and Rome"
    for kwargs, shown in (({}, False), ({"conform": "nemo"}, True)):
        _, info = judged(ENV_ID, TASK, answer, BOTH, **kwargs)
        assert ("Bonn" in json.dumps(info["judge_evaluations"][0]["responses_create_params"])) == shown
