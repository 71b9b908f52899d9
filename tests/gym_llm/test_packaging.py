"""What is built, installed and checked out is one and the same package: wheel, sdist, editable, archive, type checkers.

Everything is built by the tools that users have, without a network and in throwaway environments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from testing import ROOT

pytestmark = pytest.mark.slow

ENV_FOLDERS = sorted(path.parent.name for path in (ROOT / "envs").glob("*/env.py"))
LINKS = {path.name: path.readlink() for path in (ROOT / "gym_llm").iterdir() if path.is_symlink()}
FOLDERS = {"gym_llm": ROOT / "gym_llm", **{f"gym_llm/{name}": ROOT / name for name in LINKS}}

USER_SCRIPT = """
from typing import assert_type

import gymnasium as gym

import gym_llm
from gym_llm import RolloutSettings, VerifierEnv
from gym_llm.envs.weather.env import Weather
from gym_llm.rollouts.plan import Plan, open_plan
from gym_llm.types import Episode, Rollout
from gym_llm.vector import LocalVectorEnv


async def play() -> None:
    async for record in gym_llm.rollout("gym_llm/Weather-v0", episodes=2, settings=RolloutSettings(seed=1)):
        assert_type(record, Rollout)
    async for group in gym_llm.rollout("gym_llm/Weather-v0", group_size=8, drop_equal=True):
        assert_type(group, list[Rollout])


assert_type(gym_llm.collect("gym_llm/Weather-v0", "pocket", episodes=2), list[Rollout])
assert_type(gym_llm.RolloutSettings(concurrency=2).concurrency, int)
assert_type(gym_llm.VerifierEnv, type[VerifierEnv])
assert_type(open_plan("gym_llm/Weather-v0"), Plan)
assert_type(LocalVectorEnv("gym_llm/Weather-v0", 2).num_envs, int)


class Colder(Weather):
    def verify(self, task: Weather.Task, episode: Episode) -> float:
        assert_type(task.expected_city, str | None)
        return assert_type(super().verify(task, episode), float) / 2


env: VerifierEnv = Colder()
assert isinstance(env, gym.Env)
"""
PLAY = """
import gymnasium, gym_llm
env = gymnasium.make("gym_llm/Counter-v0")
env.reset(seed=0); env.step([])
print(gym_llm.__file__, env.unwrapped.__class__.__module__)
"""


def run(*command: str | Path, cwd: Path, pythonpath: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": pythonpath}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip(*arguments: str | Path) -> None:
    command = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)
    run(*command, "--no-deps", "--no-build-isolation", "--no-index", cwd=Path("/"))


def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`git archive` of the working tree, extracted into a folder that is called what the package is called."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")
    changed = run(*git, "stash", "create", cwd=ROOT).strip()  # a commit of what is not committed, if anything
    folder = tmp_path_factory.mktemp("parent") / "gym_llm"
    archive = folder.with_suffix(".tar")
    run(*git, "archive", "--output", archive, changed or "HEAD", cwd=ROOT)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def editable(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with an editable install of `clone`, and whatever else is installed here."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    python = environment / "bin" / "python"
    packages = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=environment).strip())
    # A path in a .pth file, and so not the .pth files that lie there: this package's own is one of them.
    (packages / "outer.pth").write_text(sysconfig.get_paths()["purelib"])
    pip("--python", python, "install", "--editable", clone)
    return python


def test_the_folders_beside_the_package_are_linked_into_it() -> None:
    assert {name: str(target) for name, target in LINKS.items()} == {
        name: f"../{name}" for name in ("envs", "wrappers", "vector", "data")
    }


def test_the_wheel_has_every_module_and_all_package_data(wheel: Path) -> None:
    files = names(wheel)
    for package, folder in FOLDERS.items():
        for module in folder.rglob("*.py"):
            assert f"{package}/{module.relative_to(folder).as_posix()}" in files
    for env in ENV_FOLDERS:
        for file in ("data/example.jsonl", "README.md", "config.yaml"):
            assert f"gym_llm/envs/{env}/{file}" in files
    assert "gym_llm/py.typed" in files
    for file in (ROOT / "gym_llm" / "engines" / "pocket" / "model").glob("*"):
        assert f"gym_llm/engines/pocket/model/{file.name}" in files
    for file in (ROOT / "gym_llm" / "author" / "scaffold" / "verifier").iterdir():
        assert f"gym_llm/author/scaffold/verifier/{file.name}" in files
    assert {name.split("/")[0].partition("-")[0] for name in files} == {"gym_llm"}
    assert not [name for name in files if "__pycache__" in name]
    assert not [name for name in files if "/tests/" in name and "/envs/harbor/data/tasks/" not in name]


def test_the_wheel_built_from_the_sdist_is_the_same(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-c", f"import hatchling.build as b; b.build_sdist({str(tmp_path)!r})", cwd=ROOT)
    (sdist,) = tmp_path.glob("*.tar.gz")
    pip("wheel", "--wheel-dir", tmp_path, sdist)
    (built,) = tmp_path.glob("*.whl")
    assert names(built) == names(wheel)


def test_the_installed_wheel_works_away_from_the_repository(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip("install", "--target", target, wheel)
    code = (
        "import sys\n"
        "import gym_llm, gymnasium, pathlib\n"
        f"assert gym_llm.__file__.startswith({str(target)!r}), gym_llm.__file__\n"
        "from gym_llm.core.registry.ids import env_ids\n"
        "from gym_llm.core.registry.env_files import dry_run_kwargs\n"
        "from gym_llm.data import read_jsonl\n"
        "for env_id in env_ids():\n"
        "    env = gymnasium.make(env_id, **dry_run_kwargs(env_id)).unwrapped\n"
        "    here = pathlib.Path(sys.modules[type(env).__module__].__file__).parent\n"
        f"    assert str(here).startswith({str(target)!r})\n"
        "    assert len(list(read_jsonl(here / 'data' / 'example.jsonl'))) == 5\n"
        "    env.reset(options={'task': next(read_jsonl(here / 'data' / 'example.jsonl'))[1]}); env.step([])\n"
        "print('fine')\n"
    )
    assert run(sys.executable, "-c", code, cwd=tmp_path, pythonpath=str(target)) == "fine\n"


def test_an_archive_plays_where_it_is_extracted_without_being_installed(clone: Path) -> None:
    assert run(sys.executable, "-c", PLAY, cwd=clone).split() == [
        str(clone / "gym_llm" / "__init__.py"),
        "gym_llm.envs.counter.env",
    ]


def test_an_editable_install_is_the_path_of_the_clone(clone: Path, editable: Path) -> None:
    (path_file,) = editable.parents[1].glob("lib/*/site-packages/*gym_llm*.pth")
    assert path_file.read_text().split() == [str(clone)]


def test_a_script_in_the_clones_parent_folder_imports_the_package_and_not_the_clone(
    clone: Path, editable: Path
) -> None:
    """That folder is first on `sys.path`, and has a folder of the package's name: the clone."""
    script = clone.parent / "play.py"
    script.write_text(PLAY)
    assert run(editable, script, cwd=Path("/")).split()[0] == str(clone / "gym_llm" / "__init__.py")


@pytest.mark.parametrize("checker", [pytest.param("mypy", marks=pytest.mark.nightly), "pyright"])
def test_type_checkers_know_the_types_of_a_script_beside_the_clone(clone: Path, editable: Path, checker: str) -> None:
    """`assert_type` fails where a type is Any or unknown."""
    (clone.parent / "user.py").write_text(USER_SCRIPT)
    if checker == "mypy":
        command = ("mypy", "--strict", "--python-executable", editable)
    else:
        (clone.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')  # pyright's own default
        command = ("basedpyright", "--pythonpath", editable)
    run(Path(sys.executable).parent / command[0], *command[1:], "user.py", cwd=clone.parent)
