"""`gym-llm serve`, as its users have it: a process that answers until it is told to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from testing import row

from gym_llm.cli import main

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "gym_llm.cli", "serve"]
PLAIN = "plain_wire:PlainWire"


def asked(url: str, body: Any = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=20) as answer:
        return json.load(answer)


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, "0"), (signal.SIGTERM, "0"), (signal.SIGINT, "2")])
def test_it_serves_until_a_signal_and_ends_the_episodes(tmp_path: Path, number: signal.Signals, workers: str) -> None:
    (tmp_path / "mine.py").write_text(
        "from gym_llm import VerifierEnv\n\n"
        "class Mine(VerifierEnv):\n"
        "    def verify(self, task, episode): return 1.0\n"
        "    def teardown(self, task, episode): print('torn down', flush=True)\n"
    )
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row("A?")) + "\n")
    arguments = [
        "./mine.py",
        "--tasks",
        "tasks.jsonl",
        "--as",
        PLAIN,
        "--port",
        "0",
        "--max-sessions",
        "5",
        "--workers",
        workers,
    ]
    environment = {**os.environ, "GYM_LLM_TOKEN": "secret-token-5"}
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            line = process.stdout.readline()
            assert " at http://127.0.0.1:" in line, process.stderr.read()
            url = line.split(" at ")[1].split()[0]
            process.stdout.readline()
            assert "curl" in (told := process.stdout.readline()) and "secret-token" not in told
            opened = asked(f"{url}/plain", {}, Authorization="Bearer secret-token-5")
            assert opened["input"][0]["content"] == "A?"
        finally:
            process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "torn down\n", "Closed.\n")


def test_what_is_wrong_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["gym_llm/Weather-v0", "--as", "openenw"], "There is no protocol 'openenw'"),
        (["gym_llm/Weather-v0", "--host", "0.0.0.0"], "Other machines can reach"),
        (["gym_llm/Wether-v0"], "Did you mean gym_llm/Weather-v0?"),
        (["gym_llm/Counter-v0", "Weather-v0"], "no environment 'Weather-v0'. Did you mean gym_llm/Weather-v0?"),
        (["gym_llm/Weather-v0", "--env-kwargs", '{"what": 1}'], "no argument 'what'"),
        (["gym_llm/Weather-v0", "--max-sessions", "0"], "--max-sessions"),
        (["gym_llm/Weather-v0", "--idle-seconds", "-1"], "idle_seconds"),
        (["gym_llm/Weather-v0", "gym_llm/Counter-v0", "--tasks", "x.jsonl"], "single"),
        (["gym_llm/Weather-v0", "--tasks", "nowhere.jsonl"], "nowhere.jsonl"),
        (["gym_llm/Weather-v0", "--ray-address", "head:6379"], "--ray-address only makes sense with --workers"),
    ):
        assert main(["serve", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("gym-llm: ") and said in error and error.count("\n") == 1, error
