"""Arena: both orders, both bad, and answers that are not compared."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from judging import judged
from testing import response, row

from gym_llm.errors import DataError, JudgeError

ENV_ID = "gym_llm/Arena-v0"
TASK = {"question": "A poem?", "baseline_answer": "Roses.", "baseline_model": "Org/Rose-1"}
V2 = {"verdict_weight": 3, "style_control_method": "bradley_terry"}


@pytest.mark.parametrize(
    ("texts", "reward", "weighted"),
    [
        (("[[A>>B]]", "[[B>>A]]"), 1.0, 1.0),
        (("[[A>B]]", "[[A>B]]"), 0.5, 0.5),
        (("[[A>>B]]", "[[A>B]]"), 0.5, 0.75),
        (("[[B>A]]", "[[A>>B]]"), 0.0, 0.0),
        (("[[BB]]", "[[BB]]"), 0.5, 0.5),
        (("Is it [[B>A]]? [[A>B]]", "[[A=B]]"), 0.75, 0.75),
    ],
)
def test_the_reward_is_the_mean_of_both_orders(texts: tuple[str, str], reward: float, weighted: float) -> None:
    for kwargs in ({}, {"conform": "nemo"}):
        got, info = judged(ENV_ID, TASK, "<think>!</think>Violets.", *texts, **kwargs)
        assert (got, info["win"], info["tie"]) == (reward, float(reward > 0.5), float(reward == 0.5))
        assert info["both_bad"] == ("[[BB]]" in texts)
        assert judged(ENV_ID, TASK, "Violets.", *texts, **V2, **kwargs)[0] == weighted
    one, other = (call["responses_create_params"]["input"][-1]["content"] for call in info["judge_evaluations"])
    assert "assistant A|>\nViolets." in one and "assistant B|>\nViolets." in other


@pytest.mark.parametrize(("text", "theirs"), [("Hm.", 0.5), ("It is not [[A>B]].", 1.0), ("", 0.5)])
def test_an_unreadable_verdict_masks_and_upstream_loses(text: str, theirs: float) -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "Violets.", text, "[[B>A]]")
    assert judged(ENV_ID, TASK, "Violets.", text, "[[B>A]]", conform="nemo")[0] == theirs


@pytest.mark.parametrize("answer", ["", "<think>Violets.", "<think>Violets.</think>"])
def test_an_empty_answer_asks_nobody(answer: str) -> None:
    assert judged(ENV_ID, TASK, answer)[0] == judged(ENV_ID, TASK, answer, conform="nemo")[0] == 0.0


def answered(model: str, reason: str | None = None, **kwargs: Any) -> float:
    env = gym.make(ENV_ID, disable_env_checker=True, judge="constant:[[A=B]]", **kwargs)
    env.reset(options={"task": row(**TASK)})
    fields = {"status": "incomplete", "incomplete_details": {"reason": reason}} if reason else {}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Violets."}]}
    return float(env.step({**response(said), "model": model, **fields})[1])


def test_an_answer_that_was_cut_off_loses_in_version_3() -> None:
    assert (answered("m", "max_output_tokens"), answered("m", "content_filter"), answered("m")) == (0.0, 0.5, 0.5)
    assert answered("m", "max_output_tokens", **V2) == 0.5


def test_a_model_is_not_compared_with_itself() -> None:
    for kwargs in ({"model": "org/rose-1/"}, {"model": "m", "policy_model_aliases": ["ORG/Rose-1"]}):
        with pytest.raises(DataError, match="another model"):
            answered(**kwargs)
        assert answered(conform="nemo", **kwargs) == 0.0
    assert answered("org/rose-1", **V2) == 0.5
    with pytest.raises(DataError):
        judged(ENV_ID, {**TASK, "self_comparison": True}, "Violets.", **V2)
