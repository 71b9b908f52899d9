"""InverseIF: criteria, each judged with a JSON object."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import JudgeError

ENV_ID = "gym_llm/InverseIF-v0"
TASK = {"rubric": [{"id": "C1", "criteria": "Two words?"}], "prompt": "Say {x}.", "reference_response": "So {y}."}


def verdict(text: str, **kwargs: object) -> str:
    evaluation = judged(ENV_ID, TASK, "Well said.", text, **kwargs)[1]["rubric_evaluations"][0]
    return str(evaluation["verdict"])


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("inverse_if")


@pytest.mark.parametrize(
    ("text", "right", "theirs"),
    [
        ('```json\n{"result": "PASS", "explanation": "Two."}\n```', "PASS", "PASS"),
        ('{"explanation": "a {brace} and {\\"b\\": 1}", "result": "fail"}', "FAIL", "FAIL"),
        ('An example is {"result": "PASS"}. Mine: {"result": "FAIL"}', "FAIL", "PASS"),
        ('{"why": {"n": 1}, "result": "FAIL"}. PASSES nothing', "FAIL", "PASS"),
    ],
)
def test_the_last_object_counts(text: str, right: str, theirs: str) -> None:
    assert (verdict(text), verdict(text, conform="nemo")) == (right, theirs)


@pytest.mark.parametrize(("text", "theirs"), [("It DOES NOT PASS", "PASS"), ("I say FAIL\nso", "FAIL"), ("Hm", "FAIL")])
def test_words_alone_are_no_verdict_but_upstream_they_are(text: str, theirs: str) -> None:
    assert verdict(text, conform="nemo") == theirs
    with pytest.raises(JudgeError):
        verdict(text)


def test_what_is_reported() -> None:
    text = '{"result": "PASS", "explanation": "Two."}'
    reward, info = judged(ENV_ID, TASK, "<think>x</think>Well said.", text)
    (evaluation,) = info["rubric_evaluations"]
    assert (reward, info["num_passed"], info["generated_response"]) == (1.0, 1, "Well said.")
    assert (evaluation["criterion_id"], evaluation["explanation"], evaluation["score"]) == ("C1", "Two.", 1.0)
    assert "Say {x}." in evaluation["judge_prompt"] and "So {y}." in evaluation["judge_prompt"]


def test_a_row_may_bring_its_own_messages() -> None:
    own = {
        "judge_prompt_template": '{criteria}|{model_response}|{other} {"result": 1}',
        "judge_system_prompt": "Be strict.",
    }
    _, info = judged(ENV_ID, {**TASK, **own}, "Well said.", '{"result": "FAIL"}')
    system, user = info["judge_evaluations"][0]["responses_create_params"]["input"]
    assert (system["content"], user["content"]) == ("Be strict.", 'Two words?|Well said.|{other} {"result": 1}')
    _, info = judged(ENV_ID, TASK, "Well said.", '{"result": "FAIL"}', judge_prompt_template="Only {criteria}")
    assert info["judge_evaluations"][0]["responses_create_params"]["input"][0]["content"] == "Only Two words?"


def test_upstream_reads_an_object_only_if_it_is_json_and_explains_by_the_same() -> None:
    text = '```json\n{"result": "FAIL", "explanation": "no"}\n``` {"result": "PASS", "explanation": "yes"}'
    _, info = judged(ENV_ID, TASK, "<think>Hm.</think>Well said.", text, conform="nemo")
    evaluation = info["rubric_evaluations"][0]
    assert (evaluation["verdict"], evaluation["explanation"]) == ("FAIL", "no")
    assert info["generated_response"] == "Well said."
    assert verdict('{"result": 5}\nPASS', conform="nemo") == "PASS"
