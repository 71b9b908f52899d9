"""Environments of other frameworks' packages in tests: where they are made, the frameworks play themselves there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from testing import function_call

from gym_llm.cli import main
from gym_llm.envs.theirs.environments import home_of
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.hub_folder import HubFolder


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


HUB = Path(__file__).parent / "envs" / "theirs" / "hub"
"""A folder of OpenEnv's hub; the server `plain` in it needs no package of OpenEnv's."""


def plain_folder(folder: Path) -> Path:
    """A copy of the folder with the server that needs no package; its environment of Python is this one."""
    shutil.copytree(HUB, folder)
    (folder / "openenv.yaml").write_text("app: server.plain:main\n")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def require_openenv() -> None:
    """Skip the test where OpenEnv's own package has no environment."""
    openenv = replace(frameworks()["openenv"], packages=HubFolder.read(str(HUB)).packages)
    if not (home := home_of(openenv)).exists():
        pytest.skip(f"There is no environment of the package openenv: {home}.")


def begin(env: Any, seed: int = 4) -> list[dict[str, Any]]:
    task = {"responses_create_params": {"input": []}, "seed": seed}
    observation, _ = env.reset(options={"task": task})
    said: list[dict[str, Any]] = observation["input"]
    return said


def guess(env: Any, number: int) -> tuple[str, float, bool]:
    observation, reward, terminated, *_ = env.step([function_call("act", {"guess": number})])
    return observation["input"][-1]["output"], reward, terminated
