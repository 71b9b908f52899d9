from __future__ import annotations

import json

import pytest
from testing import ROOT

from gym_llm.author.attack import Finding, Report
from gym_llm.author.attack.attack_play import says, shortened
from gym_llm.author.attack.card import card
from gym_llm.author.attack.gold import expected_fields, kind_of, wrong_for
from gym_llm.author.attack.scripted_judge import is_right, opposite
from gym_llm.cli import main

FILE = ROOT / "tests" / "importable" / "holes.py"


@pytest.mark.slow
def test_the_command_says_what_it_found_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "attack", f"{FILE}:Substring", "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    finding = next(each for each in report["findings"] if each["attack"] == "letters after")
    assert finding["action"] == "Pariszeb"
    assert (finding["check"], finding["severity"], finding["got"]) == ("near miss", "high", "reward 1")
    assert Report.from_json(report).open_findings


@pytest.mark.slow
def test_the_command_is_content_with_a_sound_verifier(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "attack", f"{FILE}:Exact"]) == 0
    assert "0 findings" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--all"),
        (["--all", "gym_llm/Weather-v0"], "--all"),
        (["gym_llm/Weather-v0", "--env-kwargs", "{"], "--env-kwargs is not JSON"),
        (["gym_llm/Wether-v0"], "cannot be attacked"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "attack", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_the_likeliest_field_comes_first() -> None:
    row = {
        "target": 3,
        "question": "?",
        "metadata": {"gold": "x"},
        "expected_answer": "7",
        "responses_create_params": {},
    }
    assert [path for path, _ in expected_fields(row)] == [("expected_answer",), ("target",), ("metadata", "gold")]


@pytest.mark.parametrize("text", ["42", "-0.5", "B", "yes", "Oslo", "24 m", "[1, 2]"])
def test_a_wrong_answer_is_another_one_of_its_kind(text: str) -> None:
    wrong = wrong_for(text, kind_of(text))
    assert wrong.casefold() != text.casefold()
    assert kind_of(text) in (kind_of(wrong), "math")


def test_a_strict_judge_wants_what_the_row_expects_and_nothing_else() -> None:
    row = {"expected_answer": "Oslo"}
    assert is_right(row, says("oslo")) and is_right(row, says("\\boxed{Oslo}"))
    assert not is_right(row, says("Oslo or Bergen")) and not is_right(row, says(""))
    assert opposite("verdict: PASS") == "verdict: FAIL" and opposite("Seven") is None


def test_what_is_shown_of_an_action_is_short() -> None:
    assert len(shortened("x" * 10**6)) < 200
    assert shortened([1, 2, 3, 4, 5, 6, 7, 8]) == [1, 2, 3, 4, 5, 6, "… 2 more"]


def test_a_card_is_the_same_for_the_same_results() -> None:
    findings = [
        Finding(
            "near miss", "two answers", "high", 0, "A | B", "less than 1", "reward 1", accepted="the metric's rule"
        ),
        Finding("cost", "1 MB of '<'", "medium", 1, "<", "less than 5 s", "9 s"),
    ]
    report = Report("gym_llm/Weather-v0", 5, [1.0], [0.0], "expected_city", findings=findings, seconds=1.0, cost=0.01)
    again = Report.from_json(json.loads(json.dumps(report.as_json())))
    again.seconds, again.cost, again.findings = 9.0, 0.02, findings[::-1]
    assert card(report) == card(again)
    assert "the metric's rule" in card(report) and "**not accepted**" in card(report)
