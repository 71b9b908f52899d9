"""Tests for layers: made once, complete or not at all, and only read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from testing import ROOT

from gym_llm.agents.harnesses import layers
from gym_llm.agents.harnesses.catalogue import harness_files
from gym_llm.errors import EngineUnavailable

PLAYABLE = sorted(each.name for each in harness_files() if each.is_playable)


def test_a_layer_is_made_once_by_all_who_want_it_and_is_only_read(tmp_path: Path) -> None:
    made: list[int] = []

    def fill(part: Path, place: Path, lock: int) -> None:
        made.append(lock)
        (part / "bin").mkdir()
        time.sleep(0.05)
        (part / "bin" / "x").write_text("1")

    place = tmp_path / "x-1-abc"
    threads = [threading.Thread(target=layers._make, args=(place, "x", fill)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and (place / "bin" / "x").read_text() == "1"
    assert not os.stat(place / "bin" / "x").st_mode & 0o222 and not os.stat(place / "bin").st_mode & 0o222


def test_an_installation_that_fails_or_is_interrupted_leaves_no_layer(tmp_path: Path) -> None:
    place = tmp_path / "x-1-abc"
    left = tmp_path / ".x-1-abc.part"
    left.mkdir()
    (left / "half").touch()  # of a process that was killed

    def interrupted(part: Path, place: Path, lock: int) -> None:
        assert not (part / "half").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        layers._make(place, "x", interrupted)
    assert not place.exists() and not left.exists()
    layers._make(place, "x", lambda part, place, lock: (part / "whole").touch())
    assert (place / "whole").exists()


def test_a_failed_installer_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as lock, pytest.raises(EngineUnavailable, match="exit code 3: no such package"):
        layers._run([sys.executable, "-c", "import sys; print('no such package'); sys.exit(3)"], lock.fileno())


def test_npm_packages_are_installed_with_the_node_that_runs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, part, npm = tmp_path / "node" / "bin" / "node", tmp_path / "part", tmp_path / "npm"
    npm.write_text('#!/bin/sh\nmkdir -p "$6/node_modules/.bin"\ncommand -v node > "$6/said"\n')
    node.parent.mkdir(parents=True)
    node.touch()
    for program in (npm, node):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with open(tmp_path / "lock", "w") as lock:
        layers._npm(["x@1"], [tmp_path / "node"], part, tmp_path / "place", lock.fileno())
    assert (part / "said").read_text().strip() == str(node) and (part / "bin").is_symlink()


def test_a_missing_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = next(each for each in harness_files() if each.install.pip)
    newer = harness.model_copy(update={"install": harness.install.model_copy(update={"python": "3.99"})})
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineUnavailable, match=r"3\.99"):
        layers.python_for(newer)


def test_a_python_of_pyenv_is_found_although_it_is_not_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = next(each for each in harness_files() if each.install.pip)
    newer = harness.model_copy(update={"install": harness.install.model_copy(update={"python": "3.99"})})
    shim, python = tmp_path / "shims" / "python3.99", tmp_path / "versions" / "3.99.1" / "bin" / "python3.99"
    for path, code in ((shim, 127), (python, 0)):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\nexit {code}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert layers.python_for(newer) == str(python)


def play(*arguments: str) -> dict[str, int]:
    script = ROOT / "benchmarks" / "harness_matrix.py"
    ended = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr[-3_000:]
    figures: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    assert figures["right"] == figures["pairs"] > 0, ended.stdout
    return figures


@pytest.mark.slow
def test_two_harnesses_install_and_play_with_every_token_kept() -> None:
    names = ["--harness", "openai-agents", "--harness", "pydantic-ai"]
    assert play(*names, "--environment", "Weather") == {"harnesses": 2, "pairs": 2, "right": 2}


@pytest.mark.nightly
@pytest.mark.parametrize("name", PLAYABLE)
def test_every_harness_installs_and_plays_with_every_token_kept(name: str) -> None:
    if name == "terminus-2" and shutil.which("tmux") is None:
        pytest.skip("Terminus 2 needs tmux.")
    assert play("--harness", name, "--environment", "Weather", "--environment", "Arithmetic")["pairs"] >= 1
