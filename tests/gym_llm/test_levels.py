"""What `make test` leaves for the night is on a page of the documentation."""

from __future__ import annotations

import re

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
