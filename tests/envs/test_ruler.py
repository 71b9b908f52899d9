"""Ruler: references named in the answer."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row, scored
from verifier_vectors import replay_all

from gym_llm.errors import DataError

ENV = "gym_llm/Ruler-v0"


@pytest.mark.parametrize(
    ("subset", "text", "reward"),
    [
        ("vt", "abc, DEF", 0.5),
        ("cwe", "ABC def ghi jkl", 1.0),
        ("niah_multivalue", "none", 0.0),
        ("qa_1", "it is ghi", 1.0),
        ("qa_2", "it is GHI", 1.0),
        ("qa_2", "", 0.0),
    ],
)
def test_a_share_counts_but_for_the_questions(subset: str, text: str, reward: float) -> None:
    got, info = scored(ENV, text, outputs=["ABC", "DEF", "ghi", "jkl"], subset=subset, length=4)
    assert got == info[subset] == reward


@pytest.mark.parametrize(
    ("reference", "text", "alone"),
    [
        ("12", "in 2012", False),
        ("12", "in 2012, on May 12.", True),
        ("12", "12", True),
        ("run", "running", False),
        ("run", "rerun", False),
        ("run", "(run)", True),
        ("run", "_run_", True),
        ("C++", "use C++11", True),
        ("élan", "vélan", False),
        ("東京", "私は東京都", True),
        ("lamp", "lamplamp", False),
    ],
)
def test_a_reference_stands_alone_but_for_nemo_gym(reference: str, text: str, alone: bool) -> None:
    fields: dict[str, Any] = {"outputs": [reference], "subset": "cwe"}
    assert scored(ENV, text, **fields)[0] == alone
    assert scored(ENV, text, {"conform": "nemo"}, **fields)[0] == 1.0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outputs": [], "subset": "vt"}, "at least one reference"),
        ({"outputs": [""], "subset": "vt"}, "at least one reference"),
        ({"outputs": ["a"], "subset": "niah"}, "subset"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        gym.make(ENV, tasks=[row(**fields)])


@pytest.mark.parametrize("piece", ["a", "ab", "ab ", " "])
def test_a_megabyte_costs_little(piece: str) -> None:
    env = gym.make(ENV).unwrapped
    env.reset(options={"task": row(outputs=["ab", "b", "aaaa"], subset="cwe")})
    assert cpu_seconds(env.step, message(piece * (1_000_000 // len(piece)))) < 1.0


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("ruler")
