"""SWEBench: images, commands and rows; how they are played `test_harbor.py` says."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from image_files import Registry, root_file_system, running
from testing import ROOT, function_call, message

from gym_llm.envs.swebench.env import django_labels, with_image
from gym_llm.errors import DataError
from gym_llm.rollouts.config.nemo_gym import env_of_server
from gym_llm.sandbox.inside import tree

ENV_ID = "gym_llm/SWEBench-v0"
FILES = ("tests/a/test_b.py", "tests/a/x.txt", "tests/$(x)/y.py")
ROWS = [json.loads(line) for line in (ROOT / "envs/swebench/data/example.jsonl").read_text("utf-8").splitlines()]


def published(repo: str, **more: Any) -> dict[str, Any]:
    """A row as SWE-bench has it."""
    name = f"{repo.replace('/', '__')}-12"
    tests = {"FAIL_TO_PASS": '["t.py::test_a"]', "PASS_TO_PASS": "[]"}
    return {"repo": repo, "instance_id": name, "base_commit": "c", "problem_statement": "x", **tests, **more}


def test_a_published_row_is_played_in_its_own_image_with_its_own_tests() -> None:
    env = gym.make(ENV_ID, tasks=[published("psf/requests")]).unwrapped
    task = env.tasks[0].task
    assert task.docker_image == "swebench/sweb.eval.x86_64.psf_1776_requests-12:latest"
    assert task.test_command == "source /opt/miniconda3/bin/activate testbed; python -m pytest -rA"
    patch = "".join(f"diff --git a/{file} b/{file}\n" for file in FILES)
    assert django_labels(patch) == ["a.test_b"]
    command = with_image(published("django/django", test_patch=patch))["test_command"]
    assert command.endswith("--parallel 1 a.test_b") and ": {files};" in command
    assert with_image(published("sympy/sympy"))["test_command"].endswith("bin/test -C --verbose")
    own = published("django/django", image="host", test_command="t")
    assert with_image(own) == own


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"task": "fix-script"}, "instance_id"),
        (published("psf/requests", base_commit=""), "base_commit"),
    ],
)
def test_rows_that_cannot_be_played_are_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        gym.make(ENV_ID, tasks=[row])


def test_nemo_gyms_server_is_this_environment() -> None:
    assert env_of_server("swebench") == ENV_ID


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_our_rows_are_resolved_by_their_patches_and_by_nothing_else(number: int, tmp_path: Any) -> None:
    rewards = []
    for solve in (False, True):
        env = gym.make(ENV_ID, solve=solve, cache=str(tmp_path))
        env.reset(options={"task_index": number})
        env.step([function_call("shell", {"command": "ls"})])
        rewards.append(env.step(message("Done."))[1])
        env.close()
    assert rewards == [0.0, 1.0]


PROGRAMS = (
    *("/bin/bash", "/bin/sh", "/bin/cat", "/bin/ls", "/bin/mkdir", "/bin/rm", "/bin/tail"),
    *("/usr/bin/env", "/usr/bin/git", "/usr/bin/patch", "/usr/bin/python3"),
)


@pytest.mark.slow
@pytest.mark.skipif(not all(map(os.path.exists, PROGRAMS)), reason=f"an image is made of {', '.join(PROGRAMS)}")
def test_a_row_is_resolved_by_its_patch_in_an_image_that_is_pulled(tmp_path: Path) -> None:
    root, library = tmp_path / "root", Path(os.path.realpath("/usr/bin/python3")).name
    root_file_system(root, PROGRAMS)
    unneeded = shutil.ignore_patterns("test", "tests", "__pycache__", "dist-packages", "config-*", "ensurepip")
    shutil.copytree(f"/usr/lib/{library}", root / "usr" / "lib" / library, ignore=unneeded, symlinks=True)
    layers = [gzip.decompress(tree.pack(str(root), 1 << 30)), tree.pack_files([("srv/", 0o755, b"")])]

    def play(image: str) -> list[float]:
        rewards = []
        for solve in (False, True):
            row = {**ROWS[0], "image": image}
            options = {"registries": [image.partition("/")[0]], "cache": str(tmp_path / "cache")}
            env = gym.make(ENV_ID, tasks=[row], solve=solve, **options)
            env.reset()
            observation = env.step([function_call("shell", {"command": "ls /usr/share /srv /testbed"})])[0]
            assert "clock.py" in str(observation["input"][-1]) and "doc" not in str(observation["input"][-1])
            rewards.append(env.step(message("Done."))[1])
            env.close()
        return rewards

    async def pulled() -> list[float]:
        async with running(Registry(layers, auth="bearer", settings={"Env": ["PATH=/usr/bin:/bin"]})) as own:
            return await asyncio.to_thread(play, f"{own.name}:1")

    assert asyncio.run(pulled()) == [0.0, 1.0]
