"""MRCR: one text of many, repeated after a prefix."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import gymnasium as gym
import pytest
from testing import row, scored
from verifier_vectors import replay_all

from gym_llm.errors import DataError

ENV = "gym_llm/MRCR-v0"
FIELDS: dict[str, Any] = {
    "expected_answer": "x7the tide",
    "random_string_to_prepend": "x7",
    "n_needles": 2,
    "n_tokens": 9,
}


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("\n x7the tide \n", 1.0),
        ("X7the tide", 0.0),
        ("<think></think>x7the tide", 0.0),
        ("the tide", 0.0),
        ("x7", 0.0),
    ],
)
def test_the_prefix_comes_first(text: str, reward: float) -> None:
    got, info = scored(ENV, text, **FIELDS)
    assert got == info["seq_match_ratio"] == reward
    assert info["prefix_matched"] == text.strip().startswith("x7")


def test_the_ratio_is_difflibs_of_what_follows_the_prefix() -> None:
    said = "the wide tide, long and wide " * 20
    expected = "a tide is long " * 30
    fields = FIELDS | {"expected_answer": "x7" + expected}
    assert scored(ENV, "x7" + said, **fields)[0] == SequenceMatcher(None, said.strip(), expected).ratio()


def test_only_the_prefix_is_right_if_nothing_follows_it() -> None:
    assert scored(ENV, "x7 ", **FIELDS | {"expected_answer": "x7"})[0] == 1.0


def test_what_takes_too_long_is_worth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_llm.grading.text_metrics.RATIO_DEADLINE", 0.2)
    letters = "".join(chr(300 + n) for n in range(150))
    reward, info = scored(ENV, "x7" + letters[::-1] * 150, **FIELDS | {"expected_answer": "x7" + letters * 100})
    assert reward == 0.0 and info["timed_out"] is True and info["prefix_matched"] is True


def test_a_row_of_which_the_answer_lacks_the_prefix_is_refused() -> None:
    with pytest.raises(DataError, match="does not begin with random_string_to_prepend"):
        gym.make(ENV, tasks=[row(**FIELDS | {"random_string_to_prepend": "y"})])


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("mrcr")
