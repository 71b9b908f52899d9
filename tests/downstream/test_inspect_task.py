"""Our benchmarks and environments as tasks of Inspect, found by its entry points and played by its models."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hub_server import HubServer, Repo, serving
from model_server import ModelServer
from peers import in_peer, peer_python
from testing import ROOT

pytestmark = pytest.mark.slow


def parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an editable installation of these sources would write for the loaders of other packages."""
    from hatchling.build import build_editable

    with monkeypatch.context() as patch:
        patch.chdir(ROOT)
        wheel = tmp_path / build_editable(str(tmp_path))
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (made,) = (tmp_path / "site").glob("*.dist-info")
    assert "[inspect_ai]" in (made / "entry_points.txt").read_text()
    (made / "direct_url.json").write_text(json.dumps({"dir_info": {"editable": True}, "url": ROOT.as_uri()}))
    monkeypatch.setenv("PYTHONPATH", f"{made.parent}:{ROOT}")
    return tmp_path


def test_inspect_plays_and_scores_our_tasks(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [{"problem": f"What is {n} + {n}?", "answer": 2 * n, "problem_idx": n} for n in range(1, 31)]
    hub = HubServer()
    hub.repos["MathArena/aime_2025"] = Repo(False, {"main": {"data/train-00000.parquet": parquet(problems)}})
    with serving(hub.app()) as url:
        hub.url = url
        monkeypatch.setenv("HF_ENDPOINT", url)
        monkeypatch.setenv("HF_HOME", str(installed / "home"))
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        assert in_peer("inspect_eval", "inspect_task.py", str(installed))["passed"]


def test_inspects_command_line_finds_them(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is a server of Chat Completions, asked by Inspect's own client."""
    tasks = gym.make("gym_llm/Arithmetic-v0", digits=1).unwrapped.tasks
    rows = [tasks[index].row for index in range(3)]
    right = {row["responses_create_params"]["input"][0]["content"]: row["expected_answer"] for row in rows}
    server = ModelServer()
    server.answer = lambda body: f"\\boxed{{{right[body['messages'][-1]['content']]}}}"
    monkeypatch.setenv("OWN_API_KEY", "none")
    monkeypatch.setenv("OWN_BASE_URL", server.url)
    command = [str(peer_python("inspect_eval")), "-P", "-m", "inspect_ai", "eval", "gym_llm/Arithmetic-v0"]
    command += ["--model", "openai-api/own/stub", "-T", "limit=3", "-T", "env_kwargs={digits: 1}"]
    command += ["--log-dir", str(installed / "logs"), "--log-format", "json", "--temperature", "0.3"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    finally:
        server.close()
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (installed / "logs").glob("*.json")
    log = json.loads(path.read_text())
    assert log["status"] == "success" and log["eval"]["task"] == "gym_llm/Arithmetic-v0", log.get("error")
    assert [sample["scores"]["reward"]["value"] for sample in log["samples"]] == [1.0] * 3
    assert [body["temperature"] for body in server.bodies] == [0.3] * 3
