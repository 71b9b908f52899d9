"""EquivalenceLLMJudge: which text is judged, and when twice."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import JudgeError

ENV_ID = "gym_llm/EquivalenceLLMJudge-v0"
TASK = {"expected_answer": "Oslo"}
WITH_REGEX = {**TASK, "template_metadata": {"output_regex": r"^Answer: (\w+)"}}
YES, NO = "[[A=B]]", "[[A!=B]]"


def asked(info: dict[str, Any], call: int = 0) -> str:
    text: str = info["judge_evaluations"][call]["responses_create_params"]["input"][-1]["content"]
    return text


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("equivalence_llm_judge")


def test_the_last_label_counts_also_upstream() -> None:
    text = f"It is not {NO}, it is {YES}"
    assert judged(ENV_ID, TASK, "Oslo.", text)[0] == judged(ENV_ID, TASK, "Oslo.", text, conform="nemo")[0] == 1.0
    words = {"judge_equal_label": "CORRECT", "judge_not_equal_label": "INCORRECT", "conform": "nemo"}
    assert [judged(ENV_ID, TASK, "Oslo.", said, **words)[0] for said in ("INCORRECT", "INCORRECT, CORRECT")] == [0, 1]


def test_a_rows_pattern_finds_the_answer() -> None:
    reward, info = judged(ENV_ID, WITH_REGEX, "Hm.\nAnswer: Bergen\nAnswer: Oslo\nBye.", YES)
    assert reward == 1.0 and info["expected_answer"] == "Oslo"
    assert "<|candidate|>\nOslo\n<|end" in asked(info) and "<|question|>\nWell?\n" in asked(info)


def test_where_the_pattern_was_wrong_the_whole_text_is_judged_for_half() -> None:
    reward, info = judged(ENV_ID, WITH_REGEX, "It is Oslo.\nAnswer: Bergen", NO, YES)
    assert reward == 0.5 and "It is Oslo.\nAnswer: Bergen" in asked(info, 1)
    assert judged(ENV_ID, WITH_REGEX, "It is Oslo.\nAnswer: B", NO, check_full_generation_on_fail=False)[0] == 0.0


def test_the_same_text_is_not_judged_twice_but_upstream_it_is() -> None:
    assert judged(ENV_ID, WITH_REGEX, "Nothing that matches.", NO)[0] == 0.0
    judged(ENV_ID, WITH_REGEX, "Nothing that matches.", NO, NO, conform="nemo")


def test_a_long_gold_is_compared_with_the_whole_text() -> None:
    task = {**WITH_REGEX, "expected_answer": "Oslo " * 30}
    _, info = judged(ENV_ID, task, "Long.\nAnswer: Oslo", NO)
    assert "Long.\nAnswer: Oslo" in asked(info)


@pytest.mark.parametrize(("texts", "reward"), [((YES, YES), 1.0), ((YES, NO), 0.25), ((NO,), 0.0)])
def test_swapped(texts: tuple[str, ...], reward: float) -> None:
    assert judged(ENV_ID, TASK, "In Oslo", *texts, check_twice_swap=True, reward_if_swap_fails=0.25)[0] == reward


@pytest.mark.parametrize("conform", [None, "nemo"])
def test_an_empty_answer_and_one_that_is_too_long_ask_nobody(conform: str | None) -> None:
    for text, why in (("", "empty_final_answer"), ("In Oslo", "final_answer_too_long")):
        reward, info = judged(ENV_ID, TASK, text, max_answer_chars=4, conform=conform)
        assert (reward, info["failure_reason"]) == (0.0, why)
    assert judged(ENV_ID, TASK, "Oslo", YES, max_answer_chars=4, conform=conform)[0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["(", "(a+)+$", "(?P<x>"])
def test_a_pattern_that_hangs_or_is_none_finds_nothing(pattern: str) -> None:
    task = {**TASK, "template_metadata": {"output_regex": pattern}}
    _, info = judged(ENV_ID, task, "a" * 40 + "!", NO)
    assert "a" * 40 + "!" in asked(info)


def test_other_labels_and_a_question_pattern() -> None:
    kwargs = {"judge_equal_label": "Judgement: yes", "judge_not_equal_label": "Judgement: no"}
    reward, info = judged(ENV_ID, TASK, "Oslo", "Judgement: no, sorry, Judgement: yes", **kwargs)
    assert reward == 1.0 and info["judge_evaluations"][0]["verdict_label"] == "Judgement: yes"
    _, info = judged(ENV_ID, TASK, "Oslo", YES, question_extract_regex="W(.)ll")
    assert "<|question|>\ne\n" in asked(info)


def test_a_judge_that_cannot_be_read_masks() -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "Oslo", "Perhaps.")
    with pytest.raises(ValueError, match="needs a judge"):
        gym.make(ENV_ID)
