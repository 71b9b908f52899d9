"""The notebook runs from its first cell to its last, and what it keeps is what it prints."""

from __future__ import annotations

import os
import re

import pytest
from testing import ROOT

pytestmark = pytest.mark.slow
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = ROOT / "examples" / "tour.ipynb"


def printed(notebook):
    """All that the cells of a notebook wrote to standard output, as one text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    return "".join(output["text"] for output in outputs if output.output_type == "stream" and output.name == "stdout")


def plots(notebook):
    """The number of pictures among a notebook's outputs."""
    return sum("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))


def test_the_tour_runs_and_keeps_its_outputs(tmp_path, monkeypatch):
    kept = nbformat.read(NOTEBOOK, as_version=4)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the notebook works in a folder of its own there
    played = nbformat.read(NOTEBOOK, as_version=4)
    for cell in played.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell["outputs"] = []
    nbclient.NotebookClient(played, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    assert plots(kept) == plots(played) == 4, "run `make notebook`"
    for notebook in (kept, played):
        text = printed(notebook)
        evaluated = dict(re.findall(r"(?m)^(pocket|chance) +mean reward (\d\.\d+)", text))
        assert float(evaluated["chance"]) < 0.1 < 0.6 < float(evaluated["pocket"])
        found, left = (int(count) for count in re.findall(r"(?m)^(\d+) findings", text))
        assert found > 5 and left == 0
        assert len(re.findall(r"(?m)^step [123]: mean reward 0\.\d+, learned from \d+ of 256 episodes", text)) == 3
        before, after = re.search(r"held-out sums: mean reward (0\.\d+) before, (0\.\d+) after", text).groups()
        assert float(before) > 0.6 and float(after) > 0.6
    files = [line for line in printed(kept).splitlines() if line.startswith("/")]
    assert files == [], "paths of a machine are in the outputs"
