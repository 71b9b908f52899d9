"""Environments of other frameworks' packages in tests: where they are made, the frameworks play themselves there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gym_llm.cli import main
from gym_llm.envs.theirs.environments import home_of
from gym_llm.envs.theirs.frameworks import frameworks


def python_of(name: str, **arguments: str) -> Path:
    framework = frameworks()[name]
    if arguments:
        framework = framework.with_arguments(arguments)
    python = home_of(framework) / "bin" / "python"
    if not python.exists():
        pytest.skip(f"The environment of {framework.packages[0]} is not made: GYM_LLM_THEIRS names its folder.")
    return python


def own(name: str, code: str, python: Path | None = None) -> Any:
    """What a program prints that plays the framework itself, without a line of ours."""
    done = subprocess.run(
        [python or python_of(name), "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def replayed(episode: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    file = tmp_path / "recorded.jsonl"
    file.write_text(json.dumps(episode) + "\n")
    main(["env", "replay", str(file)])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
