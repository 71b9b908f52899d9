"""The levels of tests: the page of nightly ones, and the record of tests with other packages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import peers
import pytest
from testing import ROOT

PAGE = ROOT / "docs" / "how-to" / "contribute.md"


def nightly_files() -> list[str]:
    """Every file of tests that uses the marker."""
    found = (path for path in (ROOT / "tests").rglob("test_*.py") if "mark.nightly" in path.read_text("utf-8"))
    here = "test_levels.py"
    return sorted(path.relative_to(ROOT).as_posix() for path in found if path.name != here)


def test_the_page_lists_every_file_with_nightly_tests_and_no_other() -> None:
    text = PAGE.read_text("utf-8").partition("## What only `make test-all` runs")[2].partition("\n## ")[0]
    assert re.findall(r"^- `([^`]+)`: \S", text, re.MULTILINE) == nightly_files()


def test_a_recorded_pass_counts_for_the_same_sources_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PASSED", tmp_path / "passed")
    monkeypatch.setattr(peers, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(peers, "recorded", peers.recorded.__wrapped__)
    monkeypatch.setattr(peers, "sources_digest", lambda: "now")
    peers.note_passed("tests/a.py::test_a")
    assert peers.write_record() == 1
    shutil.rmtree(tmp_path / "passed")
    assert peers.has_passed("tests/a.py::test_a") and not peers.has_passed("tests/a.py::test_b")
    monkeypatch.setattr(peers, "sources_digest", lambda: "later")
    assert not peers.has_passed("tests/a.py::test_a")
    assert peers.write_record() == 0
