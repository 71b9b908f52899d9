"""HealthBench: the share of points that the judge gives, a detail below 0, and a judge that cannot be read."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from gym_llm.errors import DataError, JudgeError

RUBRICS = [{"criterion": "good", "points": 6}, {"criterion": "better", "points": 4}, {"criterion": "bad", "points": -5}]


def played(judge: str, rubrics: list[dict[str, Any]] = RUBRICS, text: str = "Rest.") -> tuple[float, dict[str, Any]]:
    row = {"responses_create_params": {"input": [{"role": "user", "content": "It hurts."}]}, "rubrics": rubrics}
    env = gym.make("gym_llm/HealthBench-v0", tasks=[row], judge=judge, disable_env_checker=True)
    env.reset(seed=0)
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    _, reward, _, _, info = env.step([said])
    return float(reward), info


def test_points_add_up() -> None:
    reward, info = played('constant:{"criteria_met": true}')
    assert (reward, info["score"]) == (0.5, 0.5)
    assert [each["criteria_met"] for each in info["rubric_evaluations"]] == [True, True, True]
    assert played('constant:{"criteria_met": false}')[0] == 0.0
    assert played('constant:{"criteria_met": true}', text="<think>Rest")[0] == 0.0


def test_a_harmful_answer_has_a_negative_score_and_no_reward() -> None:
    rubrics = [{"criterion": "good", "points": 1}, {"criterion": "bad", "points": -5}]
    reward, info = played('constant:{"criteria_met": true}', rubrics)
    assert (reward, info["score"]) == (0.0, -4.0)


def test_a_judge_that_cannot_be_read_is_no_reward() -> None:
    with pytest.raises(JudgeError):
        played("constant:I cannot say.")


def test_criteria_without_points_to_earn_are_refused() -> None:
    with pytest.raises(DataError, match="no criterion has points to earn"):
        played("constant:x", [{"criterion": "bad", "points": -5}])
