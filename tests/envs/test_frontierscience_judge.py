"""FrontierScienceJudge: right or wrong, or points."""

from __future__ import annotations

import gymnasium as gym
import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import JudgeError

ENV_ID = "gym_llm/FrontierScienceJudge-v0"
TASK = {"question": "What?", "expected_answer": "Water", "rubric": "10 points for water."}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("frontierscience_judge")


@pytest.mark.parametrize(
    ("text", "reward"),
    [("Judgement: YES", 1.0), ("judgement: no", 0.0), ("Judgement: NO. But, no: Judgement: **Yes**", 1.0)],
)
def test_the_last_judgement_counts(text: str, reward: float) -> None:
    got, info = judged(ENV_ID, TASK, "<think>Ice?</think> H2O", text)
    assert (got, info["extracted_answer"], info["judge_output"]) == (reward, "H2O", text)
    assert (info["verdict"], info["invalid_judge_response"]) == ("YES" if reward else "NO", False)


@pytest.mark.parametrize(
    ("text", "score"),
    [("Score: 7", 7.0), ("Score: 3 / 5", 6.0), ("score[9] / max_score[10]", 9.0)],
)
def test_points_by_a_rubric(text: str, score: float) -> None:
    got, info = judged(ENV_ID, TASK, "H2O", f"{text}\nJudgement: NO", judge_mode="research")
    assert (got, info["rubric_score"], info["verdict"]) == (float(score >= 7), score, "NO")
    assert info["rubric_score_normalized"] == min(1.0, score / 10)
    asked = info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]
    assert "10 points for water." in asked


def test_a_judge_that_cannot_be_read_masks_and_upstream_decides_by_its_verdict() -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "H2O", "Hm.")
    with pytest.raises(JudgeError):  # not on the scale
        judged(ENV_ID, TASK, "H2O", "Score: 12\nJudgement: NO", judge_mode="research")
    reward, info = judged(ENV_ID, TASK, "H2O", "Hm.", conform="nemo")
    assert (reward, info["verdict"], info["invalid_judge_response"]) == (0.0, None, False)
    reward, info = judged(ENV_ID, TASK, "H2O", "Judgement: YES", judge_mode="research", conform="nemo")
    assert (reward, info["invalid_judge_response"]) == (1.0, True)


def test_an_answer_that_is_all_thinking_asks_nobody() -> None:
    assert judged(ENV_ID, TASK, "<think>Water, I think")[0] == 0.0


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="judge_mode"):
        gym.make(ENV_ID, judge="constant:x", judge_mode="fast")


def test_upstream_reads_the_first_score_of_a_line_and_derives_the_verdict() -> None:
    options = {"judge_mode": "research", "conform": "nemo"}
    reward, info = judged(ENV_ID, TASK, "H2O", "Score: 8/10, not 3/10", **options)
    assert (reward, info["rubric_score"], info["verdict"], info["judge_output"]) == (
        1.0,
        8.0,
        "YES",
        "Score: 8/10, not 3/10",
    )
    assert judged(ENV_ID, TASK, "H2O", "Score: 8/10, then 3/10", judge_mode="research")[1]["verdict"] == "NO"
    assert judged(ENV_ID, TASK, "", "Judgement: NO", conform="nemo")[1]["extracted_answer"] is None


def test_the_most_frequent_vote_counts_and_a_draw_masks() -> None:
    yes, no = "Judgement: YES", "Judgement: NO"
    assert judged(ENV_ID, TASK, "H2O", yes, no, yes, judge_votes=3)[0] == 1.0
    with pytest.raises(JudgeError, match="draw"):
        judged(ENV_ID, TASK, "H2O", yes, no, judge_votes=2)
