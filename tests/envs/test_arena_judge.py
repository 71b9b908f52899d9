"""ArenaJudge: against a baseline, in both orders."""

from __future__ import annotations

import gymnasium as gym
import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import JudgeError

ENV_ID = "gym_llm/ArenaJudge-v0"
TASK = {"question": "A poem?", "baseline_answer": "Roses.", "category": "creative_writing"}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("arena_judge")


@pytest.mark.parametrize(
    ("texts", "first", "both"),
    [
        (("[[A>>B]]", "[[B>A]]"), 1.0, 1.0),
        (("[[A>B]]", "[[A>B]]"), 1.0, 0.5),
        (("[[A=B]]", "[[A=B]]"), 0.0, 0.5),
        (("[[B>A]]", "[[A>>B]]"), 0.0, 0.0),
        (("Is it [[B>A]]? [[A>B]]", "[[A=B]]"), 1.0, 0.75),
    ],
)
def test_winning_in_the_first_order_or_in_both(texts: tuple[str, str], first: float, both: float) -> None:
    reward, info = judged(ENV_ID, TASK, "<think>!</think>Violets.", *texts)
    assert (reward, info["judgement_base_gen"], info["win"]) == (first, texts[1], first)
    assert judged(ENV_ID, TASK, "Violets.", *texts, reward="both")[0] == both
    one, other = (call["responses_create_params"]["input"] for call in info["judge_evaluations"])
    assert "assistant A|>\nViolets." in one[-1]["content"] and "assistant B|>\nViolets." in other[-1]["content"]
    assert "writing" in one[0]["content"]


def test_a_verdict_that_is_needed_has_to_be_readable() -> None:
    assert judged(ENV_ID, TASK, "Violets.", "[[A>B]]", "Hm.")[1]["invalid_base_gen"] is True
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "Violets.", "Hm.", "[[A>B]]")
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "Violets.", "[[A>B]]", "Hm.", reward="both")
    assert judged(ENV_ID, TASK, "Violets.", "[[A>B]] or [[B>A]]", "Hm.", conform="nemo")[0] == 0.0


def test_prompts_that_ask_for_skill_have_their_own() -> None:
    _, info = judged(ENV_ID, {**TASK, "category": "hard_prompt"}, "Lone \ud800 surrogate", "[[A>B]]", "[[A>B]]")
    system, user = info["judge_evaluations"][0]["responses_create_params"]["input"]
    assert "answer the\nprompt yourself" in system["content"] and "Lone  surrogate" in user["content"]


def test_an_unknown_reward_is_refused() -> None:
    with pytest.raises(ValueError, match="reward"):
        gym.make(ENV_ID, judge="constant:x", reward="last")
