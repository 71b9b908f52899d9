"""GenerativeRewardModel: the distance from people's grades."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testing import scored

from gym_llm.errors import DataError

ENV_ID = "gym_llm/GenerativeRewardModel-v0"
NAMES = ("score_1", "score_2", "ranking")


def grades(*values: Any) -> dict[str, Any]:
    return dict(zip(NAMES, values, strict=True))


RUBRICS = [{"rubric_id": 1, **grades(5, 1, 1)}, {"rubric_id": 7, **grades(4, 4, 3)}]
TASK = {"ground_truth_overall": grades(4.0, 2.0, 2.0), "ground_truth_rubric_scores": RUBRICS}


def verdict(overall: Any = TASK["ground_truth_overall"], rubrics: Any = RUBRICS) -> str:
    return json.dumps({"rubric_evaluations": rubrics, "overall": overall})


def reward(text: str, task: dict[str, Any] = TASK, **kwargs: Any) -> float:
    return scored(ENV_ID, text, kwargs, **task)[0]


RIGHT = verdict()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RIGHT, 0.0),
        (f"I compared them.\n```json\n{RIGHT}\n```\nThat is all.", 0.0),
        (RIGHT.replace('"score_1"', '"why": "\\Delta\\ln x", "score_1"'), 0.0),
        (verdict(grades("4", "2", "2")), 0.0),
        (verdict(grades(5, 2, 4)), -1.0 - 2 * 2.0),
        (verdict(rubrics=[RUBRICS[1], {**RUBRICS[0], "score_1": 3, "ranking": 2}]), -0.5 * (2 + 2 * 1) / 2),
        (RIGHT + RIGHT, -100.0),
        (RIGHT + "{}", -100.0),
        (RIGHT[:-1], -100.0),
        (verdict(rubrics=RUBRICS[:1]), -100.0),
        (verdict(rubrics=[*RUBRICS, RUBRICS[1]]), -100.0),
        (verdict(rubrics=[*RUBRICS, {"rubric_id": 9, **grades(1, 1, 1)}]), -100.0),
        (verdict(rubrics=[]), -100.0),
        (verdict(grades(4, 2, None)), -100.0),
        (verdict(grades(4, 2, float("nan"))), -100.0),
        (verdict(grades(4, 2, "9" * 400)), -100.0),
        (verdict(grades(10**400, 2, 2)), -100.0),
        ("", -100.0),
        ('{"' * 5000, -100.0),
        ("\\" * 5000 + RIGHT, 0.0),
    ],
)
def test_the_reward_is_minus_the_distance(text: str, expected: float) -> None:
    assert reward(text) == pytest.approx(expected) == reward(text, conform="nemo")


@pytest.mark.parametrize(
    ("text", "here", "theirs"),
    [
        (f'One is 5" long. {RIGHT}', 0.0, -100.0),
        (f"<think>{verdict(grades(1, 1, 1))}</think>{RIGHT}", 0.0, -100.0),
        (verdict(grades(1e6, 2, 2)), -100.0, 4 - 1e6),
    ],
)
def test_where_it_differs_from_upstream(text: str, here: float, theirs: float) -> None:
    assert (reward(text), reward(text, conform="nemo")) == (here, theirs)


def test_grades_that_people_did_not_give_are_not_compared() -> None:
    only_ranking = {"ground_truth_overall": {"ranking": 2.0}}
    _, info = scored(ENV_ID, verdict(grades(1, 1, 4)), {}, **only_ranking)
    assert (info["overall_ranking_l1"], info["overall_ranking_binary_acc"]) == (2.0, 0.0)
    assert reward(verdict(grades(1, 1, 4)), only_ranking, ranking_weight=1.0) == -2.0
    with pytest.raises(DataError, match="must have"):
        reward(RIGHT, {"ground_truth_overall": {}})
