"""Checking that a verifier is complete: its tests pass, its artefacts are there and agree with each other."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

import gym_llm
from gym_llm.author.scaffold.play_checks import EXAMPLES, Check, check_play
from gym_llm.core.registry.env_files import dry_run_kwargs
from gym_llm.core.registry.ids import env_ids, parse_id, register, verifier_folder
from gym_llm.data.prepare import EnvDataset, prepare_data
from gym_llm.errors import ConfigError, DataError
from gym_llm.records.record_files import read_records
from gym_llm.rollouts.config import Config, load_config

_LICENCE = re.compile(r"licen[cs]e|Apache|\bMIT\b|\bGPL|CC[- ]BY|Creative Commons", re.IGNORECASE)


@dataclass(frozen=True)
class Verifier:
    """A verifier's folder."""

    folder: Path
    """With `env.py`, `config.yaml`, `README.md` and `data/`."""
    root: Path
    """The folder that Python imports it from; its configuration's paths are relative to it."""
    tests: list[Path]
    """Files; may be empty."""


def find_verifier(name: str) -> Verifier:
    """The verifier of a name: a folder with a `config.yaml`, a registered id, or the name of a registered id's folder.

    Raises:
        DataError: If no verifier is found.
    """
    if (path := Path(name) / "config.yaml").is_file():
        folder = path.parent.resolve()
    else:
        folders = {env_id: verifier_folder(env_id) for env_id in env_ids()}
        place = folders.get(name) or next((place for place in folders.values() if place and place.name == name), None)
        if name in folders and place is None:
            raise DataError(f"The module of {name}, {gym.spec(name).entry_point}, is not there.")
        if place is None:
            raise DataError(f"There is no verifier {name}: give its folder, or a name that `gym-llm list` has.")
        folder = place
    home = Path(gym_llm.__file__).resolve().parent.parent
    if folder.parent == home / "envs":  # one of ours, in its repository
        return Verifier(folder, home, sorted((home / "tests" / "envs").glob(f"test_{folder.name}.py")))
    return Verifier(folder, folder.parent, sorted({*folder.glob("test_*.py"), *folder.glob("tests/test_*.py")}))


def missing_package(verifier: Verifier) -> str | None:
    """The sentence about a package that the verifier needs and that is not installed; None where none is missing."""
    for env_id in env_ids():
        if verifier_folder(env_id) == verifier.folder:
            try:
                gym.make(env_id, disable_env_checker=True, **dry_run_kwargs(env_id)).close()
            except gym.error.DependencyNotInstalled as error:
                return str(error).partition(" was raised from the environment creator")[0]
            except Exception:  # the checks will tell
                return None
    return None


def check_verifier(verifier: Verifier, tasks: str | None = None) -> Iterator[Check]:
    """Make each check when its result is asked for, the tests last.

    Args:
        verifier: Its folder.
        tasks: A source of tasks to play; None for the example rows.
    """
    with _importable(verifier):
        try:
            config = load_config([verifier.folder / "config.yaml"], folder=verifier.root)
            if not config.environments:
                raise ConfigError("it names no environment")
        except ConfigError as error:
            yield Check("config.yaml", "failed", str(error))
        else:
            datasets = [dataset for section in config.environments.values() for dataset in section.datasets]
            licences = [f"{dataset.name}: {dataset.license}" for dataset in datasets if dataset.license]
            yield Check("config.yaml", "ok", "; ".join(["can be read", *licences]))
            _register(verifier, config)
            yield _example_rows(verifier, config)
            yield _metrics(verifier)
            yield _rollouts(verifier, config)
            for section in config.environments.values():
                yield from _plays(section.env, section.kwargs, tasks or str(verifier.folder / "data" / "example.jsonl"))
        yield _readme(verifier)
    yield _tests(verifier)


def _example_rows(verifier: Verifier, config: Config) -> Check:
    path = verifier.folder / "data" / "example.jsonl"
    try:
        count = 0
        for section in config.environments.values():
            kwargs = {**dry_run_kwargs(section.env), **section.kwargs}
            env: Any = gym.make(section.env, tasks=str(path), disable_env_checker=True, **kwargs)
            count = env.unwrapped.num_tasks
            for index in range(count):
                env.reset(options={"task_index": index})
            env.close()
    except (DataError, gym.error.Error, ImportError, TypeError) as error:
        return Check("example rows", "failed", str(error))
    if count != EXAMPLES:
        return Check("example rows", "failed", f"{path.name} has {count} rows, {EXAMPLES} are wanted.")
    return Check("example rows", "ok", f"{EXAMPLES} rows, each accepted by the verifier")


def _plays(env_id: str, kwargs: dict[str, Any], tasks: str) -> Iterator[Check]:
    stand_ins = dry_run_kwargs(env_id)

    def make() -> Any:
        return gym.make(env_id, tasks=tasks, disable_env_checker=True, **{**stand_ins, **kwargs}).unwrapped

    return check_play(make, has_stand_in=bool(stand_ins))


def _metrics(verifier: Verifier) -> Check:
    metrics = verifier.folder / "data" / "example_metrics.json"
    relative = verifier.folder.relative_to(verifier.root)
    if not metrics.exists():
        write = f"gym-llm data prepare --config {relative}/config.yaml --mode example_validation --output-dir DIR"
        return Check("metrics", "missing", f"there is no {metrics.name}; `{_installing(verifier)}{write}` writes it")
    with tempfile.TemporaryDirectory() as copy:  # preparing writes beside the data; this looks only
        shutil.copytree(verifier.folder / "data", Path(copy, relative, "data"))
        shutil.copy(verifier.folder / "config.yaml", Path(copy, relative))
        try:
            with contextlib.chdir(copy):
                config = load_config([relative / "config.yaml"], folder=verifier.root)
                datasets = [
                    EnvDataset(name, section.env, dataset, section.kwargs)
                    for name, section in config.environments.items()
                    for dataset in section.datasets
                    if dataset.type == "example"
                ]
                prepare_data(datasets, "prepared", mode="example_validation", tokenizer="none", workers=0)
        except (DataError, gym.error.Error, ImportError, TypeError) as error:
            return Check("metrics", "failed", str(error))
    return Check("metrics", "ok", f"{metrics.name} agrees with the rows")


def _rollouts(verifier: Verifier, config: Config) -> Check:
    path = verifier.folder / "data" / "example_rollouts.jsonl"
    if not path.exists():
        relative = path.relative_to(verifier.root)
        env_id = next(section.env for section in config.environments.values())
        write = f"gym-llm rollout {env_id} --engine ENGINE --limit {EXAMPLES} --output {relative}"
        command = _installing(verifier) + write
        return Check("example rollouts", "missing", f"there is no {path.name}; `{command}` writes it")
    try:
        records = [record for _, record in read_records(path)]
    except DataError as error:
        return Check("example rollouts", "failed", str(error))
    wrong = [number for number, record in enumerate(records, 1) if "response" not in record]
    if wrong or not records:
        what = f"line {wrong[0]} has no `response`" if wrong else "the file is empty"
        return Check("example rollouts", "failed", f"{path.name}: {what}.")
    return Check("example rollouts", "ok", f"{len(records)} rollouts")


def _installing(verifier: Verifier) -> str:
    is_package = (verifier.folder / "pyproject.toml").is_file()
    return f"pip install -e {verifier.folder.relative_to(verifier.root)} && " if is_package else ""


def _readme(verifier: Verifier) -> Check:
    try:
        text = (verifier.folder / "README.md").read_text("utf-8")
    except OSError as error:
        return Check("README.md", "failed", f"cannot be read: {error.strerror or error}.")
    if not _LICENCE.search(text):
        return Check("README.md", "failed", "it does not say under which licence the data is.")
    return Check("README.md", "ok", "states the licence of the data")


def _tests(verifier: Verifier) -> Check:
    arguments = [str(path) for path in verifier.tests]
    shared = verifier.root / "tests" / "envs" / "test_every_env.py"
    if not arguments and shared.is_file() and verifier.folder.parent == verifier.root / "envs":
        ids = [env_id for env_id in env_ids() if verifier_folder(env_id) == verifier.folder]
        arguments = [str(shared), "-k", " or ".join(f"{env_id}]" for env_id in ids)]
    if not arguments:
        return Check("tests", "failed", f"there are none; write {verifier.folder.name}/test_env.py.")
    return run_tests(verifier.root, arguments)


def run_tests(root: Path, arguments: list[str]) -> Check:
    """Run pytest in a folder; without pytest the tests are not run, which counts as a failure."""
    if importlib.util.find_spec("pytest") is None:
        return Check("tests", "not run", "they need pytest: pip install pytest")
    process = run_python(root, "-m", "pytest", "-p", "no:cacheprovider", *arguments)
    if process.returncode:
        return Check("tests", "failed", (process.stdout + process.stderr).strip())
    return Check("tests", "ok", process.stdout.strip().rpartition("\n")[2].strip("= ") or "passed")


def run_python(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, what lies there importable before anything else."""
    path = os.pathsep.join([str(root.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, variables = [sys.executable, "-P", *arguments], {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True)


@contextlib.contextmanager
def _importable(verifier: Verifier) -> Iterator[None]:
    """Let Python import a verifier that is not installed."""
    path = str(verifier.root)
    sys.path.insert(0, path)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(path)


def _register(verifier: Verifier, config: Config) -> None:
    for section in config.environments.values():
        if section.env not in gym.registry:
            register(section.env, f"{verifier.folder.name}.env:{parse_id(section.env)[1]}")
