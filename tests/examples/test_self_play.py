"""The self-play example: it learns the moves, plays, keeps a league, and measures what it has learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from testing import ROOT

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "examples")
    import self_play

pytestmark = pytest.mark.slow


def test_it_plays_learns_and_keeps_its_league(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--steps=8", "--every=4", "--hands=4", "--warm-up=60", f"--output={tmp_path}"]
    monkeypatch.setattr("sys.argv", ["self_play.py", *small])
    self_play.main()
    log = json.loads((tmp_path / "log.json").read_text())
    assert [line["step"] for line in log] == [0, 4, 8] and len(log[0]["bets"]) == 12
    assert log[0]["legal"] > 0.9 and 0.4 < log[0]["exploitability"] < 0.5
    assert log[-1]["exploitability"] != log[0]["exploitability"]
    league = json.loads((tmp_path / "league.json").read_text())
    assert list(league["members"]) == ["step 4", "step 8"]
    assert {tuple(sorted(result[:2])) for result in league["results"]} == {("policy", "step 4")}
    assert "chips a hand at first" in capsys.readouterr().out
