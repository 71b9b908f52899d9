"""Tests for harnesses by name: resolution, did-you-mean, other packages', and `gym-llm list --agents`."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from gym_llm import RolloutSettings
from gym_llm.agents import Program, agent_name, parse_agent_spec
from gym_llm.agents.agent_specs import FunctionSpec
from gym_llm.agents.harnesses import Harness, harness_names, load_harness
from gym_llm.cli import main
from gym_llm.errors import EngineUnavailable

YAML = """\
title: theirs
version: "1"
dialect: chat
tools: mcp
install: {pip: [theirs==1]}
command: [theirs]
"""


def test_a_harness_goes_wherever_an_agent_goes() -> None:
    harness = RolloutSettings(agent="codex").agent
    assert isinstance(harness, Harness) and agent_name(harness) == harness.harness == "codex 0.169.0"
    assert pickle.loads(pickle.dumps(harness)) == harness
    assert harness.digest != parse_agent_spec("pi").digest  # type: ignore[attr-defined]


def test_other_words_are_commands_as_before() -> None:
    for command in ("python my_agent.py", "codex exec", "./codex", "no-such-program"):
        agent = parse_agent_spec(command)
        assert type(agent) is Program and not agent.harness


def test_a_misspelt_name_gets_the_nearest() -> None:
    for wrong, right in (("codx", "codex"), ("mini-swe-agnet", "mini-swe-agent"), ("claude-cod", "claude-code")):
        with pytest.raises(ValueError, match=f"Did you mean {right}"):
            parse_agent_spec(wrong)
    with pytest.raises(ValueError, match="There are aider"):
        load_harness("nothing-like-it")


def test_a_harness_from_elsewhere_says_so_when_it_starts() -> None:
    with pytest.raises(EngineUnavailable, match="no package registry"):
        parse_agent_spec("goose").resolved()  # type: ignore[attr-defined]


def test_other_packages_bring_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, info = tmp_path / "their_agents", tmp_path / "their_agents-1.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "theirs.yaml").write_text(YAML, "utf-8")
    code = (
        "from pathlib import Path\nHARNESS = Path(__file__).parent / 'theirs.yaml'\n\n\ndef plays(episode):\n    pass\n"
    )
    (package / "__init__.py").write_text(code, "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-agents\nVersion: 1\n", "utf-8")
    points = "[gym_llm.agents]\ntheirs = their_agents:HARNESS\nplays = their_agents:plays\ngone = their_agents:gone\n"
    (info / "entry_points.txt").write_text(points, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    load_harness.cache_clear()
    try:
        assert {"theirs", "plays", "codex"} <= set(harness_names())
        harness: Any = parse_agent_spec("theirs")
        assert isinstance(harness, Harness) and harness.command == ("theirs",)
        agent: Any = parse_agent_spec("plays")
        assert isinstance(agent, FunctionSpec) and (agent.module, agent.name) == ("their_agents", "plays")
        agent.check()
        with pytest.raises(EngineUnavailable, match="gone"):
            parse_agent_spec("gone")
    finally:
        load_harness.cache_clear()
        sys.modules.pop("their_agents", None)


def test_agents_are_listed_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--agents"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split("\t")[0] == "agent" and [line.split("\t")[0] for line in lines] == harness_names()
    assert all(line.count("\t") == head.count("\t") for line in lines)
