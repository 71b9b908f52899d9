"""Our English passes the lint of language.py, in every room."""

from __future__ import annotations

from pathlib import Path

import pytest
from language import ROOT, check, files, room

ROOMS: dict[str, list[Path]] = {}
for _path in files():
    ROOMS.setdefault(room(_path.relative_to(ROOT).as_posix()), []).append(_path)


@pytest.mark.parametrize("name", sorted(ROOMS))
def test_a_room_is_in_plain_english(name: str) -> None:
    assert [str(finding) for path in ROOMS[name] for finding in check(path)] == []


def _rules(tmp_path: Path, name: str, text: str) -> list[str]:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return [finding.rule for finding in check(path)]


@pytest.mark.parametrize(
    "text",
    [
        "An action that is none.",
        "This is no answer.",
        "Nobody reads it.",
        "Report what came of it.",
        "A server of OpenEnv's, on one port.",
        "The result is handed over.",
        "The client is told.",
        "At most so many.",
        "First; second; third.",
    ],
)
def test_banned_english_is_found(tmp_path: Path, text: str) -> None:
    assert len(_rules(tmp_path, "page.md", text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        'The model says "nobody".',
        "`is none` is banned.",
        "```text\nnobody\n```",
        "There is no limit.",
        "It is no longer used.",
        "The answer of the model's server.",
        "The reward is None.",
        "One; two.",
    ],
)
def test_sound_english_and_quotations_pass(tmp_path: Path, text: str) -> None:
    assert _rules(tmp_path, "page.md", text) == []


def test_docstrings_and_messages_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("language.ROOT", tmp_path)
    (tmp_path / "vector").mkdir()
    source = (
        'def f() -> int:\n    """Whether it works."""\n\n\n'
        'def g() -> bool:\n    """Whether it works."""\n\n\n'
        'def _h() -> int:\n    """What it is."""\n    raise ValueError(f"{1} %s")\n\n\n'
        'def k() -> int:\n    """Return %s."""\n'
    )
    rules = _rules(tmp_path, "vector/a.py", source % ("x" * 120, "word " * 26))
    assert rules == ["first word", "message of 131 characters", "sentence of 27 words"]


def test_the_glossary_has_the_words_of_the_design() -> None:
    words = (
        "action, observation, record, trajectory, segment, branch, masked, worker, pool, session, protocol, group, "
        "benchmark, recipe, seat, harness, machine, weight version, engine, verifier, episode, turn, step, rollout, "
        "policy, outcome, failure, metric, run, server"
    )
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    assert [word for word in words.split(", ") if f"\n| {word} |" not in glossary] == []
