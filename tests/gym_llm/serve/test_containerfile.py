"""The Containerfile: it is read by what carries Dockerfiles out here, and its command is one of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_llm.cli import main
from gym_llm.errors import UsageError
from gym_llm.sandbox.machines.dockerfile import read_dockerfile
from gym_llm.serve.containerfile import containerfile
from gym_llm.version import __version__

ENV = "from gym_llm import VerifierEnv\n\nclass Mine(VerifierEnv):\n    def verify(self, task, episode): return 1.0\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(ENV)
    (tmp_path / "tasks.jsonl").write_text('{"responses_create_params": {"input": "A?"}}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def instructions(text: str) -> list[tuple[str, str]]:
    lines = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in lines]


def test_it_runs_as_nobody_in_particular_and_needs_a_token(folder: Path) -> None:
    text = containerfile(["./mine.py"], tasks="tasks.jsonl", arguments=["--as", "nemo"])
    names = [name for name, _ in instructions(text)]
    assert names == [
        *("FROM", "ARG", "ENV", "WORKDIR", "COPY", "COPY", "RUN", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT")
    ]
    told = dict(instructions(text))
    assert (told["USER"], told["ARG"]) == ("10001", f"REQUIREMENT=gym-llm=={__version__}")
    command = json.loads(told["ENTRYPOINT"])
    assert command[:3] == ["gym-llm", "serve", "./mine.py"] and command[-2:] == ["--as", "nemo"]
    # The command is ours, and refuses to be everybody's without a token.
    run = [sys.executable, "-m", "gym_llm.cli", *command[1:]]
    environment = {name: text for name, text in os.environ.items() if name != "GYM_LLM_TOKEN"}
    refused = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "give a token" in refused.stderr


def test_what_carries_dockerfiles_out_here_reads_it(folder: Path) -> None:
    text = containerfile(["./mine.py"], tasks="tasks.jsonl")
    (folder / "Containerfile").write_text("\n".join(line for line in text.splitlines() if "HEALTHCHECK" not in line))
    read = read_dockerfile(folder / "Containerfile")
    assert read.base == "docker.io/library/python:3.12-slim"
    assert [one.name for one in read.instructions].count("COPY") == 2
    check = json.loads(dict(instructions(text))["HEALTHCHECK"].partition(" CMD ")[2])
    compile(check[2], "healthcheck", "exec")


def test_only_files_of_the_folder_are_copied(folder: Path) -> None:
    for arguments in ({"tasks": "/etc/passwd"}, {"tasks": "../tasks.jsonl"}, {"requirement": "nowhere.whl"}):
        with pytest.raises(UsageError, match="a file in this folder"):
            containerfile(["gym_llm/Weather-v0"], **arguments)
    assert "COPY" not in containerfile(["gym_llm/Weather-v0"], tasks="hf:org/name")


def test_the_command_prints_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["serve", "gym_llm/Weather-v0", "--containerfile", "--workers", "4", "--max-sessions", "100"]
    assert main(arguments) == 0
    command = json.loads(dict(instructions(capsys.readouterr().out))["ENTRYPOINT"])
    assert command[-4:] == ["--max-sessions", "100", "--workers", "4"]
    (folder / "gym_llm-0.1-py3-none-any.whl").touch()
    assert main(["serve", "gym_llm/Weather-v0", "--containerfile"]) == 0
    told = dict(instructions(capsys.readouterr().out))
    assert told["ARG"] == "REQUIREMENT=./gym_llm-0.1-py3-none-any.whl" and ".whl" in told["COPY"]
    assert main(["serve", "gym_llm/Wether-v0", "--containerfile"]) == 2
    secret = ["--env-kwargs", '{"judge_api_key": "sk-1234567890abcdef"}']
    assert main(["serve", "gym_llm/SimpleQA-v0", "--containerfile", *secret]) == 2
    assert "sk-1234567890abcdef" not in "".join(capsys.readouterr())


def test_the_command_exports_a_package(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "gym_llm/Weather-v0", "--export", "weather_env"]) == 0
    assert (folder / "weather_env" / "openenv.yaml").is_file()
    assert "openenv push" in capsys.readouterr().out
    assert main(["serve", "gym_llm/Weather-v0", "--export", "weather_env"]) == 2
