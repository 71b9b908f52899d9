"""IMOGradingBench: which grade a text ends with."""

import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.imo_gradingbench.env import IMOGradingBench
from gym_llm.errors import DataError


def grade(text, gold="almost"):
    reward, info = scored("gym_llm/IMOGradingBench-v0", text, expected_answer=gold)
    return reward, info["extracted_grade"], info["binary_match"], info["score_diff"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("imo_gradingbench")) >= 3


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("It has a small gap.\n\nalmost", (1.0, "almost", True, 0.0)),
        ("**Almost**.", (1.0, "almost", True, 0.0)),
        ("Grade: `(al_most)`!?;,[]{}\n", (1.0, "almost", True, 0.0)),
        ("correct", (0.0, "correct", True, 1.0)),
        ("partial", (0.0, "partial", False, 5.0)),
        ("incorrect", (0.0, "incorrect", False, 6.0)),
        ("incorrect" + "." * 500, (0.0, "incorrect", False, 6.0)),
        ("almost there", (0.0, None, False, None)),
        ("**", (0.0, None, False, None)),
        ("", (0.0, None, False, None)),
    ],
)
def test_the_last_word_is_the_grade(text, verdict):
    assert grade(text) == verdict


def test_partial_and_incorrect_are_of_one_half():
    assert grade("incorrect", " Partial ") == (0.0, "incorrect", True, 1.0)


@pytest.mark.parametrize("fields", [{}, {"expected_answer": "good"}])
def test_a_row_without_a_grade_is_refused(fields):
    with pytest.raises(DataError, match="expected_answer"):
        IMOGradingBench([row(**fields)])


@pytest.mark.parametrize("unit", ["*", "a ", "correct", "\u2003"])
def test_a_hostile_megabyte_costs_little(unit):
    assert cpu_seconds(grade, unit * (1_000_000 // len(unit))) < 0.5
