"""AgentIF: judges and programs in turn, and rows whose programs are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from judging import judged
from testing import ROOT

from gym_llm.data import read_jsonl
from gym_llm.envs.agentif.env import read_verdict
from gym_llm.errors import DataError, JudgeError, SandboxUnavailable

ENV_ID = "gym_llm/AgentIF-v0"
JUDGE = {"type": "llm", "exec": "Is it short?"}
IF = {"type": "llm_conditional_check", "exec": "Does {response} name a tool?"}
HELPED = "return helper(response)\ndef helper(text):\n    return re.match('Hi', text)\ndef _():\n    import re"
WRONG = "def check_following(response):\n    return r'[\"']' in response"


def code(body: str) -> dict[str, str]:
    return {"type": "code", "exec": f"def check_following(response):\n    {body}"}


def play(checks: list[list[dict[str, str]]], *said: str, text: str = "Hi.", **kwargs: Any) -> tuple[float, Any]:
    constraints = [{"id": place, "desc": "d", "evaluation": check} for place, check in enumerate(checks)]
    try:
        return judged(ENV_ID, {"verifier_metadata": {"constraints": constraints}}, text, *said, **kwargs)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def outcomes(info: dict[str, Any]) -> list[str]:
    return [each["outcome"] for each in info["constraints"]]


@pytest.mark.parametrize(
    ("checks", "said", "expected"),
    [
        ([[code("return response == 'Hi.'")], [JUDGE]], ["YES"], ["followed", "followed"]),
        ([[code("return 'x' in response")], [JUDGE]], ["NO"], ["broken", "broken"]),
        ([[IF, code("return False")], [JUDGE]], ["NO", "YES"], ["skipped", "followed"]),
        ([[IF, code("return False")]], ["So: YES"], ["broken"]),
        ([[JUDGE, code("return response == 'a, b'")]], ["a, b"], ["followed"]),
        ([[code("return response.upper()"), JUDGE]], ["YES"], ["followed"]),
        ([[code("return 'YES'")], [code("return (0, 'why')")]], [], ["followed", "followed"]),
        ([[code("return 'NO'")], [code("return []")]], [], ["broken", "broken"]),
        ([[code("return None")], [code("return 1 / 0")]], [], ["error", "error"]),
        ([[code("import json\n    return True")], [code("while True: pass")]], [], ["followed", "error"]),
        ([[code(HELPED)]], [], ["followed"]),
        ([[{"type": "code", "exec": "check_following(response):\n    return True"}]], [], ["followed"]),
    ],
)  # fmt: skip
def test_steps_read_what_the_step_before_returned(checks: Any, said: list[str], expected: list[str]) -> None:
    for conform in (None, "nemo"):
        reward, info = play(checks, *said, conform=conform)
        assert outcomes(info) == expected
        assert reward == float("followed" in expected and not {"broken", "error"} & set(expected))
        assert (info["n_true"], info["n_false"]) == (expected.count("followed"), expected.count("broken"))


def test_a_program_that_is_not_python_is_left_out_and_upstream_fails_the_row() -> None:
    checks = [[{"type": "code", "exec": WRONG}], [JUDGE]]
    assert (play(checks, "YES")[0], play(checks, "YES", conform="nemo")[0]) == (1.0, 0.0)
    with pytest.raises(DataError):
        play([[{"type": "code", "exec": "def check():\n    return True"}]])
    listed = [[code("return True")], [{"type": "code", "exec": "import re, os\n" + code("return True")["exec"]}]]
    assert (play(listed)[0], play(listed, conform="nemo")[0]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("text", "here", "theirs"),
    [
        ("YES", True, True),
        ("**NO**", False, False),
        ("It is not NO: YES", True, None),
        ("No tools.\nyes.", True, None),
        ("YES, at first.\nNO", False, False),
        ("It may be YES or NO.", None, None),
        ("YES/NO? YES", True, None),
        ("YES? I do not know.", None, True),
        ("Yes, it is.", None, None),
        ("", None, None),
    ],
)
def test_verdicts_are_the_last_word(text: str, here: bool | None, theirs: bool | None) -> None:
    assert play([[JUDGE]], text, conform="nemo")[0] == float(theirs is True)
    if here is None:
        with pytest.raises(JudgeError):
            play([[JUDGE]], text)
    else:
        assert (play([[JUDGE]], text)[0], read_verdict(text)) == (float(here), here)


@pytest.mark.parametrize("text", ["", " ", "<think>Hi.", "<think>Hi.</think>"])
def test_an_empty_answer_earns_nothing_and_is_not_judged(text: str) -> None:
    reward, info = play([[JUDGE], [code("return True")]], text=text)
    assert (reward, info["n_false"]) == (0.0, 2)


def test_the_examples_can_be_followed_and_broken() -> None:
    answers = [
        ("<plan>find_book('Emma')</plan>", '["find_book"]'),
        ("The last train leaves at 23:03. Have a good trip.", "YES", "YES"),
        ("test: add one for empty input", "YES"),
        ("It left the depot on Monday.", "YES", "NO"),
        ('{"thought": "Hm", "action": "wait"}',),
    ]
    rows = [row for _, row in read_jsonl(ROOT / "envs" / "agentif" / "data" / "example.jsonl")]
    for row, (answer, *said) in zip(rows, answers, strict=True):
        task = {"verifier_metadata": row["verifier_metadata"]}
        assert judged(ENV_ID, task, answer, *said)[0] == 1.0
        said = ["NO" if each == "YES" else each for each in said]
        assert judged(ENV_ID, task, f"I promise a refund. {answer} " * 60, *said)[0] == 0.0
