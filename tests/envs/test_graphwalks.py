"""GraphWalks: a set of nodes, scored by F1."""

from __future__ import annotations

import gymnasium as gym
import pytest
from testing import row, scored
from verifier_vectors import replay_all

from gym_llm.errors import DataError

ENV = "gym_llm/GraphWalks-v0"


@pytest.mark.parametrize(
    ("text", "expected", "f1"),
    [
        ("Final Answer: [a, b, b]", '["a", "b"]', 1.0),
        ("Final Answer: [a, c]", '["a", "b"]', 0.5),
        ("Final Answer: []", "[]", 1.0),
        ("Final Answer: []", '["a"]', 0.0),
        ("Final Answer: [a]", "[]", 0.0),
        ("Final Answer: [1, 2]", "[1, 2]", 1.0),
        ('Final Answer: ["a", "b"]', '["a", "b"]', 0.0),
    ],
)
def test_the_reward_is_the_f1_of_sets(text: str, expected: str, f1: float) -> None:
    reward, info = scored(ENV, text, expected_answer=expected, problem_type="bfs")
    assert reward == info["f1"] == f1 and info["parse_failed"] is False


def test_without_the_line_there_is_nothing_to_score() -> None:
    reward, info = scored(ENV, "[a]", expected_answer="[]")
    assert (reward, info["parse_failed"], info["predicted_nodes"]) == (0.0, True, [])


def test_lenient_reads_quotes_and_markdown() -> None:
    text = '**Final answer:** ["a"]'
    assert scored(ENV, text, expected_answer='["a"]')[0] == 0.0
    reward, info = scored(ENV, text, {"lenient": True}, expected_answer='["a"]')
    assert reward == 1.0 and info["predicted_nodes"] == ["a"]
    with pytest.raises(ValueError, match="lenient"):
        gym.make(ENV, lenient="yes")


def test_an_expected_answer_that_is_no_list_is_refused() -> None:
    with pytest.raises(DataError, match="expected_answer is a JSON list"):
        gym.make(ENV, tasks=[row(expected_answer="a, b")])


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("graphwalks")
