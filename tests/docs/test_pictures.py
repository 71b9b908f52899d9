"""The drawn pictures of the documentation are those that their scripts draw."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from testing import ROOT

PICTURES = ROOT / "docs" / "pictures"
IMAGES = ROOT / "docs" / "images"


def draw(name: str, folder: Path) -> str:
    code = (
        f"import sys; sys.path.insert(0, {str(PICTURES)!r}); import draw; from pathlib import Path\n"
        f"draw.IMAGES = Path({str(folder)!r}); draw.main([{name!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / f"{name}.svg").read_text("utf-8")


@pytest.mark.parametrize(
    "name", ["episode_cycle", "episode_cycle_narrow", "outcomes", "judged_answer", "token_branches"]
)
def test_a_picture_is_what_its_script_draws(name: str, tmp_path: Path) -> None:
    assert (IMAGES / f"{name}.svg").read_text("utf-8") == draw(name, tmp_path), "run `make pictures`"


@pytest.mark.slow
def test_the_picture_of_an_attack_shows_what_an_attack_finds(tmp_path: Path) -> None:
    drawn = draw("attack_report", tmp_path)
    assert "Pariszeb" in drawn and "12 findings" in drawn
    assert drawn == (IMAGES / "attack_report.svg").read_text("utf-8"), "run `make pictures`"


def test_every_picture_says_what_it_shows_and_has_light_and_dark_colours() -> None:
    drawn = [path for path in IMAGES.glob("*.svg") if "--picture-" in path.read_text("utf-8")]
    names = {path.stem for path in PICTURES.glob("*_*.py")} | {"outcomes", "architecture"}
    assert {path.stem for path in drawn} == names
    for path in drawn:
        root = ElementTree.fromstring(path.read_text("utf-8"))
        assert len(root.attrib["aria-label"]) > 40 and "prefers-color-scheme: dark" in path.read_text("utf-8")
