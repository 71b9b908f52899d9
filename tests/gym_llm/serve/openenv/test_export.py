"""A folder for OpenEnv's hub: what is in it, and that its server serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml
from testing import row

from gym_llm.errors import UsageError
from gym_llm.serve.openenv.hub_folder import export_openenv

FILE = '''\
import gymnasium as gym
from gym_llm import VerifierEnv


class Mine(VerifierEnv):
    """Mine."""

    def verify(self, task, episode):
        return 1.0
'''


def test_the_folder_says_what_it_is(tmp_path: Path):
    written = export_openenv("gym_llm/Weather-v0", tmp_path / "space")
    assert {str(path.relative_to(tmp_path / "space")) for path in written} == {
        *("openenv.yaml", "README.md", "Dockerfile", ".dockerignore", "pyproject.toml", "__init__.py", "client.py"),
        *("models.py", "server/__init__.py", "server/app.py"),
    }
    manifest = yaml.safe_load((tmp_path / "space/openenv.yaml").read_text())
    assert (manifest["name"], manifest["port"], manifest["type"]) == ("weather_env", 8000, "space")
    assert manifest["validation"]["capabilities"]["declared_tools"] == ["get_weather"]
    readme = (tmp_path / "space/README.md").read_text()
    front = yaml.safe_load(readme.split("---")[1])
    assert (front["sdk"], front["app_port"]) == ("docker", 8000)
    for file in (tmp_path / "space").rglob("*.py"):
        compile(file.read_text(), file, "exec")


@pytest.mark.parametrize(
    ("name", "package"),
    [("gym_llm/Weather-v0", "weather_env"), ("gym_llm/FollowUp-v0", "follow_up_env")],
)
def test_its_package_is_called_as_the_environment(name: str, package: str, tmp_path: Path):
    export_openenv(name, tmp_path)
    assert yaml.safe_load((tmp_path / "openenv.yaml").read_text())["name"] == package


def test_what_cannot_be_exported(tmp_path: Path):
    (tmp_path / "here").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        export_openenv("gym_llm/Weather-v0", tmp_path)
    with pytest.raises(UsageError, match="package"):
        export_openenv("gym_llm/Weather-v0", tmp_path / "new", name="a-b")
    with pytest.raises(UsageError, match="single"):
        export_openenv(["gym_llm/Weather-v0", "gym_llm/Counter-v0"], tmp_path / "new", tasks="x.jsonl")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_its_server_serves_a_file_of_ones_own_with_its_tasks(tmp_path: Path):
    (tmp_path / "mine.py").write_text(FILE)
    tasks = tmp_path / "test.jsonl"
    tasks.write_text(json.dumps(row("Mine?")) + "\n")
    folder = tmp_path / "space"
    export_openenv(str(tmp_path / "mine.py"), folder, tasks=str(tasks))
    root = Path(sys.modules["gym_llm"].__file__ or "").parent.parent
    env = {**os.environ, "PYTHONPATH": str(root), "GYM_LLM_TOKEN": "the-token-of-the-test"}
    command = [sys.executable, "-m", "server.app", "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        request = urllib.request.Request(
            f"{url}/reset", b"{}", {"Authorization": "Bearer the-token-of-the-test", "Content-Type": "application/json"}
        )
        begun = time.monotonic()
        answer = json.load(urllib.request.urlopen(request, timeout=20))
        assert answer["observation"]["request"]["input"][0]["content"] == "Mine?"
        assert time.monotonic() - begun < 20
    finally:
        process.terminate()
        process.wait(20)
