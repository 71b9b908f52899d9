from __future__ import annotations

import pytest
from testing import ROOT

from gym_llm.author.attack import Report, attack
from gym_llm.cli import main

FILE = ROOT / "tests" / "importable" / "holes.py"


def attacked(name: str) -> Report:
    return attack(f"{FILE}:{name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("Substring", "near miss"),
        ("AnyBox", "all options"),
        ("NotANumber", "non-answer"),
        ("Thoughts", "said elsewhere"),
        ("Remembers", "not determined"),
        ("Generous", "non-answer"),
        ("HashOrder", "not determined"),
        ("Moody", "not determined"),
        ("Evaluates", "code"),
        ("TellsInInfo", "leak"),
        ("OpenCabinet", "tool writes"),
        ("GlassCabinet", "tool reveals"),
        ("Farm", "farming"),
        ("Judged", "judge"),
    ],
)
def test_a_hole_is_found(name: str, check: str) -> None:
    report = attacked(name)
    assert check in {finding.check for finding in report.open_findings}, report.findings


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Exact", "Boxed", "Cabinet"])
def test_a_sound_verifier_is_left_alone(name: str) -> None:
    report = attacked(name)
    assert report.findings == []
    assert report.oracle == [1.0] * report.tasks
    assert set(report.floor) == {0.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status", "line"), [("Substring", 1, "FAILED attack: "), ("Exact", 0, "ok     attack: ")]
)
def test_env_test_attacks_where_it_is_asked_to(
    name: str, status: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["env", "test", f"{FILE}:{name}", "--attack"]) == status
    assert line in capsys.readouterr().out
