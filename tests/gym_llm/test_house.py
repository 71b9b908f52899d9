"""The package as it is laid out, imported and installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from testing import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES = set(PROJECT["tool"]["setuptools"]["packages"])
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]
ENV_FOLDERS = sorted(path.parent.name for path in (ROOT / "envs").glob("*/env.py"))


def test_every_folder_is_listed_for_installation() -> None:
    """Those with data only, too: setuptools takes them for forgotten packages, and says so at length."""
    found = set()
    for package, folder in FOLDERS.items():
        for file in (ROOT / folder).rglob("*.*"):
            if "__pycache__" not in file.parts and file.is_file():
                found.add(".".join((package, *file.parent.relative_to(ROOT / folder).parts)))
    assert found == PACKAGES


def test_no_module_lies_in_a_folder_that_is_no_package() -> None:
    for folder in FOLDERS.values():
        for module in (ROOT / folder).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), module


def test_importing_the_package_is_fast_and_loads_nothing_heavy() -> None:
    code = (
        "import time; t = time.perf_counter(); import gym_llm; t = time.perf_counter() - t; import sys, json\n"
        "heavy = ['torch', 'transformers', 'vllm', 'ray', 'datasets', 'aiohttp', 'sympy', 'openai']\n"
        "print(json.dumps([t, [name for name in heavy if name in sys.modules]]))"
    )
    best = 1e9
    for _ in range(3):
        seconds, heavy = json.loads(subprocess.check_output([sys.executable, "-c", code], cwd="/", timeout=60))
        assert heavy == []
        best = min(best, seconds)
    assert best < 0.5


def test_playing_an_environment_needs_no_optional_package() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'vllm', 'ray', 'datasets', 'math_verify', 'sympy', 'openai', 'yaml'):\n"
        "    sys.modules[name] = None\n"
        "import gym_llm, gymnasium\n"
        "from gym_llm import collect\n"
        "for env_id in gym_llm.registration.env_ids():\n"
        "    if env_id not in ('gym_llm/MathVerify-v0', 'gym_llm/Mixed-v0'):\n"
        "        env = gymnasium.make(env_id); env.reset(seed=0); env.step([])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy so that the working tree stays clean."""
    pytest.importorskip("setuptools", minversion="77")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for folder in set(FOLDERS.values()):
        shutil.copytree(ROOT / folder, source / folder, ignore=ignore)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source / file)
    code = f"import setuptools.build_meta as backend; backend.build_wheel({str(out)!r})"  # what `build` and pip call
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_has_every_module_and_all_package_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package, folder in FOLDERS.items():
        target = package.replace(".", "/")
        for module in (ROOT / folder).rglob("*.py"):
            assert f"{target}/{module.relative_to(ROOT / folder).as_posix()}" in names
    for env in ENV_FOLDERS:
        for file in ("data/example.jsonl", "README.md", "config.yaml"):
            assert f"gym_llm/envs/{env}/{file}" in names
    assert "gym_llm/py.typed" in names
    for file in (ROOT / "gym_llm" / "engines" / "pocket" / "model").glob("*"):
        assert f"gym_llm/engines/pocket/model/{file.name}" in names
    assert not [name for name in names if name.startswith(("envs/", "data/", "wrappers/", "vector/", "tests/"))]


def test_the_installed_wheel_works_away_from_the_repository(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)  # what installing a pure Python wheel is
    code = (
        "import sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in getattr(f, '__module__', str(f))]\n"
        "import gym_llm, gymnasium, pathlib\n"
        f"assert gym_llm.__file__.startswith({str(target)!r}), gym_llm.__file__\n"
        "from gym_llm.registration import env_ids\n"
        "from gym_llm.data import read_jsonl\n"
        "for env_id in env_ids():\n"
        "    env = gymnasium.make(env_id).unwrapped\n"
        "    here = pathlib.Path(sys.modules[type(env).__module__].__file__).parent\n"
        f"    assert str(here).startswith({str(target)!r})\n"
        "    assert len(list(read_jsonl(here / 'data' / 'example.jsonl'))) == 5\n"
        "    env.reset(options={'task': next(read_jsonl(here / 'data' / 'example.jsonl'))[1]}); env.step([])\n"
        "print('fine')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
