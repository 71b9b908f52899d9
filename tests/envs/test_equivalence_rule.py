"""EquivalenceRule: the whole answer against the expected text."""

from __future__ import annotations

from difflib import SequenceMatcher

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row, scored
from verifier_vectors import replay_all

ENV = "gym_llm/EquivalenceRule-v0"


@pytest.mark.parametrize(
    ("text", "reward"),
    [("The  red\n\tFox ", 1.0), ("the red fox.", 0.0), ("<think>a</think>the red fox", 0.0), ("", 0.0)],
)
def test_exact_leaves_out_case_and_white_space_only(text: str, reward: float) -> None:
    assert scored(ENV, text, expected_answer=" The red fox") == (
        reward,
        {"task_index": -1, "turn": 1, "tool_errors": 0, "equivalence_score": reward},
    )


def test_nothing_is_equal_to_nothing() -> None:
    assert scored(ENV, " \n", expected_answer="")[0] == 1.0
    assert scored(ENV, "", {"grading_rule": "weighted_seq_match"}, expected_answer="")[0] == 1.0


def test_ratios_are_difflibs_with_the_answer_first() -> None:
    said, expected = "tide", "diet"
    ratio = SequenceMatcher(None, said, expected).ratio()
    assert ratio != SequenceMatcher(None, expected, said).ratio()
    assert scored(ENV, said, {"grading_rule": "seq_match"}, expected_answer=expected)[0] == ratio


def test_the_beginning_weighs_once_more() -> None:
    expected, said = "abcdefghijKLM", "xbcdefghijklm and more"
    ratio = SequenceMatcher(None, said, expected.lower()).ratio()
    reward, info = scored(ENV, said, {"grading_rule": "weighted_seq_match"}, expected_answer=expected)
    assert reward == info["equivalence_score"] == 0.85 * ratio + 0.15 * 0.9 and info["timed_out"] is False


def test_what_takes_too_long_is_worth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_llm.grading.text_metrics.RATIO_DEADLINE", 0.2)
    letters = "".join(chr(300 + n) for n in range(150))
    fields = {"expected_answer": letters * 100}
    reward, info = scored(ENV, letters[::-1] * 150, {"grading_rule": "seq_match"}, **fields)
    assert reward == 0.0 and info["timed_out"] is True


def test_a_rule_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean seq_match"):
        gym.make(ENV, grading_rule="seqmatch")


def test_a_megabyte_costs_little() -> None:
    env = gym.make(ENV).unwrapped
    env.reset(options={"task": row(expected_answer="fox")})
    assert cpu_seconds(env.step, message("a \n" * 333_333)) < 1.0


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("equivalence_rule")
