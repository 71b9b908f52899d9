"""PhysicsJudge: the whole text is judged."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import JudgeError

pytest.importorskip("math_verify")
ENV_ID = "gym_llm/PhysicsJudge-v0"
TASK = {"question": "How far?", "expected_answer": "24 m", "domain": "mechanics"}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("physics_judge")


@pytest.mark.parametrize(
    ("text", "reward", "theirs"),
    [
        ("[Correct]", 1.0, 1.0),
        ("[INCORRECT]", 0.0, 0.0),
        ("It is not [Correct], it is [Incorrect]", 0.0, 1.0),
    ],
)
def test_the_last_mark_counts_and_upstream_any(text: str, reward: float, theirs: float) -> None:
    got, info = judged(ENV_ID, TASK, "As far as a stone flies.", text)
    assert (got, info["domain"]) == (reward, "mechanics")
    assert "As far as a stone flies." in info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]
    assert judged(ENV_ID, TASK, "As far as a stone flies.", text, conform="nemo")[0] == theirs


def test_a_judge_who_says_neither_has_failed() -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "Far.", "I do not know.")
    assert judged(ENV_ID, TASK, "Far.", "I do not know.", conform="nemo")[0] == 0.0
