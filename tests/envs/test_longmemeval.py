"""LongMemEval: a rule for each type of question."""

from __future__ import annotations

from typing import Any

import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import DataError, JudgeError

ENV_ID = "gym_llm/LongMemEval-v0"


def task(kind: str = "multi-session", number: str = "q1", **more: Any) -> dict[str, Any]:
    about = {"question_id": number, "question_type": kind, "question": "Who?", "answer": "Ann", **more}
    return {"verifier_metadata": about}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("longmemeval")


@pytest.mark.parametrize(
    ("text", "label", "theirs"),
    [("yes", True, True), ("No, yesterday it was.", False, True), ("I say yes.", True, True), ("no", False, False)],
)
def test_a_whole_word_counts_and_upstream_any_part(text: str, label: bool, theirs: bool) -> None:
    reward, info = judged(ENV_ID, task(), "Ann <think>or Bo", text)
    assert (reward, info["judge_label"], info["generation"]) == (float(label), label, "Ann")
    assert judged(ENV_ID, task(), "Ann", text, conform="nemo")[1]["judge_label"] is theirs


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (task("temporal-reasoning"), "off by one"),
        (task("knowledge-update"), "latest"),
        (task("single-session-preference"), "<|rubric|>\nAnn"),
        (task(number="q2_abs"), "cannot be answered"),
        (task(abstention=True), "cannot be answered"),
        (task(number="q2_abs", abstention=False), "<|gold answer|>\nAnn"),
    ],
)
def test_each_type_has_its_rule(row: dict[str, Any], words: str) -> None:
    _, info = judged(ENV_ID, row, "Ann", "yes")
    assert words in info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]
    assert info["abstention"] == ("cannot" in words)


def test_nothing_said_asks_nobody() -> None:
    reward, info = judged(ENV_ID, task(), "<think>Ann</think>")
    assert (reward, info["empty_response"]) == (0.0, True)


@pytest.mark.parametrize("text", ["Yesterday.", "No idea.", "No comment", "Not a yes"])
def test_what_is_no_word_for_it_masks(text: str) -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, task(), "Ann", text)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(DataError, match="question_type"):
        judged(ENV_ID, task("other"), "Ann")


def test_upstream_calls_a_silent_judge_a_no() -> None:
    reward, info = judged(ENV_ID, task(), "So</think>Ann", "<think>yes</think>", conform="nemo")
    assert (reward, info["judge_error"], info["judge_raw"]) == (0.0, "empty_judge_output", "")
    assert judged(ENV_ID, task(number="q2_abs", abstention=False), "Ann", "no", conform="nemo")[1]["abstention"] is True
