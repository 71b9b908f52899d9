"""TerminusJudge: form, keystrokes, judge, in this order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import DataError

ENV_ID = "gym_llm/TerminusJudge-v0"
YES, NO = "[[A=B]]", "[[A!=B]]"


def action(keys: str = "ls -la\n", **more: Any) -> str:
    return json.dumps({"analysis": "a", "plan": "b", "commands": [{"keystrokes": keys, "duration": 0.1}], **more})


def task(expected: str | None = None, **more: Any) -> dict[str, Any]:
    return {"expected_answer": expected or action(), "metadata": {"harness": "terminus_2"}, **more}


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("terminus_judge")


def test_nearly_the_same_keystrokes_need_no_judge() -> None:
    reward, info = judged(ENV_ID, task(), "<think>{}</think>" + action(task_complete=False))
    assert (reward, info["similarity_score"], info["failure_reason"]) == (1.0, 1.0, "none")
    assert judged(ENV_ID, task(threshold=0.5), action("ls -a\n"))[0] == 1.0


@pytest.mark.parametrize(("text", "reward"), [(YES, 1.0), (NO, 0.0), (f"{NO}? No, {YES}", 1.0)])
def test_others_are_judged(text: str, reward: float) -> None:
    got, info = judged(ENV_ID, task(), action("dir\n"), text)
    assert (got, info["judge_passed"], info["string_similarity_passed"]) == (reward, reward == 1.0, False)


def test_swapped() -> None:
    assert judged(ENV_ID, task(), action("dir\n"), YES, NO, check_twice_swap=True)[0] == 0.0
    assert judged(ENV_ID, task(), action("dir\n"), YES, YES, check_twice_swap=True)[0] == 1.0


def test_without_a_judge_similarity_decides() -> None:
    assert judged(ENV_ID, task(), action("dir\n"), judge=None)[0] == 0.0
    off = {"judge": None, "enable_string_similarity": False}
    assert judged(ENV_ID, task(), action("dir\n"), **off)[0] == 1.0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "model_output_invalid"),
        ("[]", "model_output_invalid"),
        (action() + "!", "model_output_invalid"),
        ("[" * 500_000, "model_output_invalid"),
        ('{"commands": []}', "schema_check_failed"),
        (action(more=1), "schema_check_failed"),
        (json.dumps({"analysis": "a", "plan": "b", "commands": [{"duration": 1}]}), "schema_check_failed"),
        (json.dumps({"analysis": "a", "plan": "b", "commands": ["ls"]}), "schema_check_failed"),
        (
            json.dumps({"analysis": "a", "plan": "b", "commands": [{"keystrokes": "", "duration": True}]}),
            "schema_check_failed",
        ),
    ],
)
def test_what_has_not_the_form_is_worth_nothing(answer: str, reason: str) -> None:
    reward, info = judged(ENV_ID, task(), answer)
    assert (reward, info["failure_reason"]) == (0.0, reason)


def test_completion_has_to_be_claimed_when_it_is_due_and_only_then() -> None:
    done = action(task_complete=True)
    assert judged(ENV_ID, task(done), action())[1]["failure_reason"] == "task_complete_check_failed"
    assert judged(ENV_ID, task(), done)[1]["failure_reason"] == "task_complete_check_failed"
    assert judged(ENV_ID, task(), done, conform="nemo")[0] == 1.0


def test_the_other_harness() -> None:
    command = {"keystrokes": "ls", "is_blocking": True, "timeout_sec": 5}
    theirs = {"state_analysis": "a", "explanation": "b", "commands": [command], "is_task_complete": False}
    row = {"expected_answer": json.dumps(theirs), "metadata": {"harness": "terminus_1"}}
    assert judged(ENV_ID, row, json.dumps(theirs))[0] == 1.0
    del command["is_blocking"]
    assert judged(ENV_ID, row, json.dumps(theirs))[1]["failure_reason"] == "schema_check_failed"


@pytest.mark.parametrize(
    "row", [task("no JSON"), {**task(), "metadata": {"harness": "zsh"}}, {"metadata": {"harness": "terminus_2"}}]
)
def test_a_row_that_is_wrong_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        judged(ENV_ID, row, action())


def test_a_check_that_was_not_made_is_not_reported() -> None:
    _, info = judged(ENV_ID, task(), f"<think>Hm.</think>{action()}")
    assert "judge_passed" not in info and info["string_similarity_passed"] is True
    assert info["model_output"] == action()
    _, info = judged(ENV_ID, task(), "no JSON")
    assert not {"schema_check_passed", "similarity_score", "judge_passed"} & info.keys()


def test_upstream_tells_an_exchange_that_cannot_be_read() -> None:
    options = {"check_twice_swap": True, "conform": "nemo"}
    _, info = judged(ENV_ID, task(), action("pwd; whoami\n"), "[[A=B]]", "Hm.", **options)
    assert info["failure_reason"] == "judge_swap_parsing_failed"
