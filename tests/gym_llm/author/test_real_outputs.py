"""Real outputs are graded, compared with their published verdicts, and kept on the benchmark's card."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT

from gym_llm.author.audit import Audit
from gym_llm.author.real_outputs import TITLE, grade_outputs
from gym_llm.cli import main
from gym_llm.errors import DataError

STRINGS, RULES = "gym_llm/StringMatch-v0", "gym_llm/InstructionFollowing-v0"
PROMPT: dict[str, Any] = {"input": [{"role": "user", "content": "?"}]}
NO_COMMA: dict[str, Any] = {
    "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
    "kwargs": [{}, {}],
}


def output(answer: Any, official: Any, env: str | None = STRINGS, **more: Any) -> dict[str, Any]:
    task: dict[str, Any] = (
        {"expected_answer": "Oslo"} if env != RULES else {"verifier_metadata": {**NO_COMMA, "prompt": "?"}}
    )
    task["responses_create_params"] = PROMPT
    return {"env": env, "task": task, "answer": answer, "official": official, "model": "m", **more}


def written(path: Path, *rows: dict[str, Any]) -> str:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return str(path)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (output("Answer: Oslo", True), None),
        (output("Answer: Bergen", False), None),
        (output("Answer: Oslo", 1.0), None),
        (output("Answer: Oslo", False), "rewarded more here"),
        (output("Answer: Bergen", True), "published as right, less here"),
        (output("It is\nOslo", True), "published as right, not read here"),
        (output("Answer: Oslo", 0.5), "rewarded more here"),
        (output([{"type": "message", "role": "assistant", "content": 3}], True), "the task or the answer is refused"),
        ({**output("Oslo", True), "task": {"expected_answer": 3}}, "the task or the answer is refused"),
        (output("this is a sentence without any marks", [True, True], RULES), None),
        (
            output("this is a sentence, and it has marks", [True, True], RULES),
            "punctuation:no_comma: not followed here only",
        ),
        (output("This is a sentence without any marks", [True, False], RULES), None),
        (output("x", [True], RULES), "the verifier returns no list of instructions"),
        (
            output("this is a sentence without any marks", [True, True], RULES, official_loose=[True, True]),
            "the verifier returns no list of instructions (loose)",
        ),
    ],
)
def test_differences_have_classes(row: dict[str, Any], kind: str | None, tmp_path: Path) -> None:
    report = grade_outputs(row["env"], [written(tmp_path / "v.jsonl.gz", row)])
    assert list(report.differences) == ([] if kind is None else [kind])
    assert (report.outputs, report.agreed) == (1, int(kind is None))
    assert len(report.examples.get(kind or "", [])) == report.outputs - report.agreed


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([], "got none"),
        ([{"task": {}, "answer": "x"}], "official"),
        ([output("x", True, benchmark="aime25", env=None)], "benchmark"),
        ([output("x", "yes")], "official"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: list[dict[str, Any]], word: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=word):
        grade_outputs(STRINGS, [written(tmp_path / "v.jsonl.gz", *rows)])


def test_a_card_keeps_the_other_report_and_what_people_wrote(tmp_path: Path) -> None:
    file = written(tmp_path / "v.jsonl.gz", output("Answer: Oslo", True), output("Oslo", False, **{"class": "bare"}))
    report, tasks = grade_outputs(STRINGS, [file]), Audit("bbh", 3, played=3, official=3)
    card = report.card(tasks.section()).replace("- models", "> bare: ours is right.\n\n- models")
    again = Audit("bbh", 4, played=4, official=4).card(report.card(card))
    assert again.startswith("# bbh\n\n4 tasks") and again.count(TITLE) == 1
    assert "> bare: ours is right.\n" in again and "| v.jsonl.gz | bare | 1 |" in again


def test_the_command_writes_text_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [output("Answer: Oslo", True, benchmark="bbh"), output("<b>Answer: Oslo", False, benchmark="bbh")]
    file = written(tmp_path / "v.jsonl.gz", *rows)
    assert main(["data", "audit", "bbh", "--outputs", file, "--output", str(tmp_path / "out")]) == 1
    assert "| v.jsonl.gz |  | 2 | 1 | 50.00%" in capsys.readouterr().out
    report = json.loads((tmp_path / "out/audit.json").read_text())
    assert (report["outputs"], report["agreed"], report["differences"]) == (2, 1, {"rewarded more here": 1})
    page = (tmp_path / "out/audit.html").read_text()
    assert "&lt;b&gt;Answer: Oslo" in page and "<b>Answer" not in page
    assert main(["data", "audit", STRINGS, "--outputs", file, "--keep"]) == 2
    assert "--keep needs a benchmark" in capsys.readouterr().err


def test_cards_with_real_outputs_explain_each_known_class() -> None:
    cards = [card.read_text() for card in (ROOT / "data/benchmarks/cards").glob("*.md")]
    for card in cards:
        if TITLE in card and "## Classes of difference" in card:
            assert "\n> " in card
