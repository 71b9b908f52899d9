"""PolyMath: as MathWithJudge, with language and weight."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

pytest.importorskip("math_verify")
TASK = {"question": "¿Cuánto?", "expected_answer": "4", "language": "es", "weight": 2.0, "difficulty": "medium"}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("polymath")


def test_language_and_weight_are_reported() -> None:
    reward, info = judged("gym_llm/PolyMath-v0", TASK, r"\boxed{4}", judge=None)
    assert (reward, info["language"], info["weight"], info["difficulty"]) == (1.0, "es", 2.0, "medium")


def test_a_judge_may_be_asked_in_any_language() -> None:
    assert judged("gym_llm/PolyMath-v0", TASK, "cuatro", "[[A=B]]", "[[A=B]]")[0] == 1.0
