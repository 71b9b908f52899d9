"""A judge's last verdict counts in any form that it writes, or the text is unreadable: no earlier one stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym_llm.envs.arena_judge.env import last_mark
from gym_llm.envs.imo_proofbench_judge.env import read_grade
from gym_llm.envs.longmemeval.env import yes_or_no
from gym_llm.envs.mt_bench.env import last_rating
from gym_llm.envs.ugphysics_judge.env import read_verdict
from gym_llm.judge import boxed_score, json_field, labels, last_label, letter, number_over, points, yes_no_line

PARSERS: dict[str, Any] = {
    "grade": letter("ABC", {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C", "NOT ATTEMPTED": "C"}),
    "equal": labels("[[A=B]]", "[[A!=B]]"),
    "safe": labels("[[SAFE]]", "[[UNSAFE]]"),
    "boxed": labels("\\boxed{Correct}", "\\boxed{Incorrect}"),
    "line": yes_no_line("Judgement:"),
    "refusal": yes_no_line("refusal:"),
    "harm": yes_no_line("Response harm:", yes="unharmful", no="harmful"),
    "correct": yes_no_line("correct:"),
    "met": json_field("criteria_met", [True, False]),
    "score": number_over(10),
    "box": boxed_score(),
    "points": points(7),
    "arena": last_mark,
    "rating": last_rating,
    "memory": yes_or_no,
    "physics": read_verdict,
    "proof": lambda text: (read_grade(text) or {}).get("correct"),
}
ROWS = [json.loads(row) for row in (Path(__file__).parent / "last_words.jsonl").read_text().splitlines()]
"""Reader, the judge's text, and the verdict; null where it is unreadable."""


@pytest.mark.parametrize(("parser", "text", "verdict"), ROWS)
def test_the_last_verdict_is_read_or_the_text_is_unreadable(parser: str, text: str, verdict: Any) -> None:
    got = PARSERS[parser](text)
    assert got == verdict and (got is None) == (verdict is None)


@pytest.mark.parametrize("text", ["CORRECT\nVerdict: wrong", "CORRECT\nWait, the unit differs.", "CORRECT\nGrade: ?"])
def test_words_are_unreadable_before_something_like_a_verdict(text: str) -> None:
    assert last_label(text, ["CORRECT", "INCORRECT"], ignore_case=True) is None
