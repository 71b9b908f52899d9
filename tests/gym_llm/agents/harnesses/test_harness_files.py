"""Tests for the harnesses' data files, and for the errors of wrong ones."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gym_llm.agents.agent_episode import Addresses
from gym_llm.agents.harnesses import Harness, HarnessFile, read_harness_file
from gym_llm.agents.harnesses.catalogue import harness_files

KEY = "gl-0123456789abcdef"
ADDRESSES = Addresses("http://h:1/v1", "http://h:1", f"http://h:2/s/{KEY}", f"http://h:2/s/{KEY}/mcp", KEY, 'org/a "b"')
TASK = {"prompt": "How cold?", "tools": [{"name": "get_weather"}], "request": {}, "model": "m"}
FILES = {each.name: each for each in harness_files()}
GOOD = {"title": "t", "version": "1", "dialect": "chat", "tools": "mcp", "install": {"pip": ["x==1"]}, "command": ["x"]}


def test_there_are_twenty_harnesses_and_seventeen_that_play() -> None:
    playable = [each for each in FILES.values() if each.is_playable]
    assert len(FILES) >= 20 and len(playable) >= 17
    assert {each.dialect for each in playable} == {"chat", "responses", "messages"}
    assert all(each.limits for each in FILES.values() if not each.is_playable)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_harness_starts_without_its_key_in_sight(name: str) -> None:
    harness = FILES[name]
    launch = Harness.of(harness).launch(ADDRESSES, "/episode", TASK)
    assert KEY not in " ".join(launch.command) and "${" not in " ".join(launch.command)
    for file, content in launch.files.items():
        if file.endswith(".json"):
            json.loads(content)
        elif file.endswith(".toml"):
            tomllib.loads(content.decode())
        elif file.endswith(".py") or file == "bin/gym-tool":
            compile(content, file, "exec")
    said = launch.stdin.decode() + launch.files["prompt.txt"].decode() + " ".join(launch.command)
    assert "How cold?" in said and ("gym-tool" in said) == (harness.tools == "shell")
    pinned = " ".join([*harness.install.pip, *harness.install.npm])
    assert harness.install.elsewhere or pinned.split()[0].endswith(harness.version)
    if harness.tools == "mcp" and harness.program:
        assert "GYM_LLM_MCP_URL" in harness.files[f"program/{harness.program}"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comand": ["x"]}, "no field comand. Did you mean command?"),
        ({"command": ["x", "${modle}"]}, "no placeholder ${modle}. Did you mean model?"),
        ({"command": ["x", "${api_key}"]}, "contains the key"),
        ({"files": {"../x": "y"}}, "not a path below"),
        ({"install": {"pip": ["x"]}}, "install.pip.0"),
        ({"install": {"pip": ["x==1"], "npm": ["y@1"]}}, "one of pip, npm and elsewhere"),
        ({"dialect": "morse"}, "dialect"),
        ({"program": "missing.py"}, "does not exist"),
        ({"environment": {"X": "${tool_url}"}}, "Did you mean tools_url?"),
    ],
)
def test_a_wrong_file_is_refused_with_the_field_and_the_fix(change: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **change}), "utf-8")
    with pytest.raises(ValueError, match=r"mine\.yaml") as error:
        read_harness_file(path)
    assert words in str(error.value)


@pytest.mark.parametrize("text", ["[1, 2]", "name: [", ""])
def test_a_file_that_is_not_a_mapping_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"mine\.yaml"):
        read_harness_file(tmp_path / "mine.yaml")


def test_a_shell_of_a_harness_calls_tools_by_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**GOOD, "tools": "shell"}), "utf-8")
    harness: HarnessFile = read_harness_file(tmp_path / "mine.yaml")
    assert harness.files["bin/gym-tool"].startswith("#!/usr/bin/env python3")
    without = Harness.of(harness).launch(ADDRESSES, "/episode", {**TASK, "tools": []})
    assert without.stdin == b"How cold?"
