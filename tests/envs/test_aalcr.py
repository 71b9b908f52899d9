"""AALCR: one word of the judge's."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import DataError, JudgeError

ENV_ID = "gym_llm/AALCR-v0"
TASK = {"question": "Who?", "answer": "Ann", "input_tokens_band": "80k-100k", "input_tokens": 90_000}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("aalcr")


@pytest.mark.parametrize(
    ("text", "reward", "theirs"),
    [
        ("CORRECT", 1.0, False),
        ("INCORRECT", 0.0, False),
        ("CORRECT.", 1.0, True),
        ("Not INCORRECT: Correct", 1.0, True),
    ],
)
def test_the_last_word_counts_and_upstream_nothing_else_may_be_there(text: str, reward: float, theirs: bool) -> None:
    got, info = judged(ENV_ID, TASK, "Ann", text)
    assert (got, info["reward_80k_100k"]) == (reward, reward) and "reward_lt_80k" not in info
    assert judged(ENV_ID, TASK, "Ann", text, conform="nemo")[1]["invalid_judge_response"] is theirs


@pytest.mark.parametrize("text", ["", "Perhaps."])
def test_a_judge_that_says_neither_masks(text: str) -> None:
    with pytest.raises(JudgeError):
        judged(ENV_ID, TASK, "Ann", text)


def test_an_empty_answer_asks_nobody() -> None:
    reward, info = judged(ENV_ID, TASK, " ")
    assert (reward, info["invalid_model_response"]) == (0.0, True)


def test_an_unknown_band_is_refused() -> None:
    with pytest.raises(DataError, match="input_tokens_band"):
        judged(ENV_ID, {**TASK, "input_tokens_band": "1k"}, "Ann")


def test_overrides_go_over_the_request() -> None:
    overrides = {
        "judge_responses_create_params": {"temperature": 1.0},
        "judge_responses_create_params_overrides": {"top_p": 0.5},
    }
    _, info = judged(ENV_ID, TASK, "Ann", "CORRECT", **overrides)
    request = info["judge_evaluations"][0]["responses_create_params"]
    assert (request["temperature"], request["top_p"]) == (1.0, 0.5)


def test_nothing_is_said_of_a_judge_who_was_not_asked() -> None:
    _, info = judged(ENV_ID, TASK, " ")
    assert info["invalid_model_response"] is True and "invalid_judge_response" not in info


@pytest.mark.parametrize(
    ("text", "reward", "theirs"),
    [
        ('{"verdict": "CORRECT"}', 1.0, 1.0),
        ('{"verdict": "INCORRECT"}', 0.0, 0.0),
        ('```json\n{"verdict": "CORRECT"}\n```', 1.0, None),
        ('It is {"verdict": "INCORRECT"}? No: {"verdict": "correct", "why": "x"}', 1.0, None),
        ("CORRECT", None, None),
    ],
)
def test_version_1_1_asks_for_an_object(text: str, reward: float | None, theirs: float | None) -> None:
    row = {**TASK, "aa_lcr_judge_protocol": "official_v1_1"}
    for conform, expected in ((None, reward), ("nemo", theirs)):
        if expected is None:
            with pytest.raises(JudgeError):
                judged(ENV_ID, row, "Ann", text, conform=conform)
        else:
            got, info = judged(ENV_ID, row, "Ann", text, conform=conform, judge_protocol="official_v1_1")
            assert got == expected
            assert "verdict" in info["judge_evaluations"][0]["responses_create_params"]["input"][-1]["content"]
    with pytest.raises(DataError, match="judge_protocol"):
        judged(ENV_ID, row, "Ann", text, judge_protocol="legacy_v1_0")
