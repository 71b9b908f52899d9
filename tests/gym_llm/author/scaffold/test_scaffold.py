"""`gym-llm env init` and `gym-llm env test`, from the first command to a verifier that is installed."""

import json
import os
import subprocess
import sys
import zipfile
from itertools import islice
from pathlib import Path

import pytest
from testing import ROOT, copy_repository, python_in

from gym_llm.author.scaffold import Check, check_file, check_verifier, find_verifier, write_verifier
from gym_llm.author.scaffold import verifier_checks as checks
from gym_llm.cli import main
from gym_llm.core.registry import ids as registration
from gym_llm.errors import DataError

pytestmark = pytest.mark.slow


def results(folder: Path) -> dict[str, Check]:
    return {check.subject: check for check in check_verifier(find_verifier(str(folder)))}


def failing(folder: Path) -> dict[str, str]:
    return {subject: check.detail for subject, check in results(folder).items() if check.state == "failed"}


def command(*args: str, cwd: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run `gym-llm` where what lies in `site` is installed."""
    line = [sys.executable, "-P", "-m", "gym_llm.cli", *args]
    env = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    return subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_a_new_verifier_passes_its_tests_as_written(tmp_path, capsys):
    assert main(["env", "init", "CapitalCities", "--dir", str(tmp_path)]) == 0
    folder = tmp_path / "capital_cities"
    assert f"gym-llm env test {folder}" in capsys.readouterr().out
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert written == {
        "README.md",
        "__init__.py",
        "config.yaml",
        "data/example.jsonl",
        "env.py",
        "pyproject.toml",
        "test_env.py",
    }
    ruff = [sys.executable, "-m", "ruff"]
    for check in (["check"], ["format", "--check"]):
        config = ["--no-cache", "--config", str(ROOT / "pyproject.toml")]  # as `make test` in the clone
        ran = subprocess.run([*ruff, *check, *config, str(folder)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert main(["env", "test", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "ok     tests: 12 passed" in said and "FAILED" not in said
    assert "`pip install -e capital_cities && gym-llm data prepare --config capital_cities/config.yaml" in said
    assert [path.name for path in tmp_path.iterdir()] == ["capital_cities"]


def test_an_installed_verifier_is_like_any_other(tmp_path):
    folder = write_verifier("river_lengths", tmp_path)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(folder)], check=True, timeout=120)
    site = tmp_path / "site"
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    work = tmp_path / "work"
    work.mkdir()
    write_verifier("river_lengths", work)
    ran = command("list", cwd=work, site=site)
    assert "river_lengths/RiverLengths-v0" in ran.stdout
    prepare = ("data", "prepare", "--config", "river_lengths/config.yaml", "--tokenizer", "none", "--output-dir", "out")
    ran = command(*prepare, "--mode", "example_validation", cwd=work, site=site)
    assert ran.returncode == 0, ran.stderr
    ran = command("env", "test", "river_lengths", cwd=work, site=site)
    assert "ok     metrics: example_metrics.json agrees" in ran.stdout, ran.stdout
    ran = command("env", "test", "river_lengths/RiverLengths-v0", cwd=tmp_path / "site", site=site)
    assert "ok     tests: 12 passed" in ran.stdout and ran.returncode == 0


def test_an_editable_install_imports_the_folder_itself(tmp_path):
    pytest.importorskip("hatchling")
    folder = write_verifier("river_lengths", tmp_path)
    code = f"import hatchling.build as backend; backend.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=120)
    site = tmp_path / "site"
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        f"import site; site.addsitedir({str(site)!r})\nimport gym_llm, gymnasium, sys\n"
        "gymnasium.make('river_lengths/RiverLengths-v0'); print(sys.modules['river_lengths'].__file__)\n"
    )
    done = python_in(ROOT, "-c", code, cwd=site)
    assert done.stdout == f"{folder / '__init__.py'}\n", done.stderr


@pytest.mark.nightly
def test_in_this_repository_a_new_verifier_becomes_one_of_ours_and_leaves_everything_green(tmp_path):
    root = copy_repository(tmp_path / "clone")
    before = {path for path in root.rglob("*") if path.is_file()}
    init = python_in(root, "-m", "gym_llm.cli", "env", "init", "CapitalCities", cwd=root / "benchmarks")
    assert init.returncode == 0 and "gym-llm env test ../envs/capital_cities" in init.stdout, init.stderr
    written = {path for path in root.rglob("*") if path.is_file()} - before
    assert {str(path.relative_to(root)) for path in written if "__pycache__" not in path.parts} == {
        "envs/capital_cities/README.md",
        "envs/capital_cities/__init__.py",
        "envs/capital_cities/config.yaml",
        "envs/capital_cities/data/example.jsonl",
        "envs/capital_cities/env.py",
        "tests/envs/test_capital_cities.py",
    }
    for check in (
        ("ruff", "check", "--no-cache", "."),
        ("ruff", "format", "--check", "--no-cache", "."),
        ("mypy", "--no-incremental", "--follow-imports=skip", "gym_llm/envs/capital_cities/env.py"),
        ("gym_llm.cli", "env", "test", "gym_llm/CapitalCities-v0"),
        ("pytest", "-p", "no:cacheprovider", "tests/envs/test_every_env.py", "-k", "CapitalCities or documentation"),
        ("pytest", "-p", "no:cacheprovider", "tests/gym_llm/author/test_catalogue.py"),
    ):
        ran = python_in(root, "-m", *check)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    again = python_in(root, "-m", "gym_llm.cli", "env", "init", "capital_cities")
    assert again.returncode == 2 and "envs/capital_cities is there already" in again.stderr
    package = python_in(root, "-m", "gym_llm.cli", "env", "init", "RiverLengths", "--dir", str(tmp_path))
    assert package.returncode == 0 and (tmp_path / "river_lengths" / "pyproject.toml").is_file()


def test_what_is_wrong_with_a_verifier_is_said(tmp_path):
    folder = write_verifier("broken_one", tmp_path)
    rows = (folder / "data/example.jsonl").read_text().splitlines()
    (folder / "data/example.jsonl").write_text("\n".join(rows[:4]) + "\n")
    (folder / "README.md").write_text("# Broken\n")
    (folder / "test_env.py").write_text("def test_it():\n    assert False, 'as ordered'\n")
    (folder / "data/example_rollouts.jsonl").write_text('{"reward": 1.0}\n')
    (folder / "data/example_metrics.json").write_text(json.dumps({"Number of examples": 5}))
    found = failing(folder)
    assert set(found) == {"example rows", "README.md", "tests", "example rollouts", "metrics"}
    assert "has 4 rows, 5 are wanted" in found["example rows"] and "licence" in found["README.md"]
    assert "as ordered" in found["tests"] and "line 1" in found["example rollouts"]
    assert "Number of examples" in found["metrics"]
    assert sorted(path.name for path in (folder / "data").iterdir()) == [
        "example.jsonl",
        "example_metrics.json",
        "example_rollouts.jsonl",
    ]


def test_a_row_that_the_verifier_refuses_is_named(tmp_path):
    folder = write_verifier("strict_one", tmp_path)
    rows = (folder / "data/example.jsonl").read_text().splitlines()
    rows[2] = rows[2].replace("expected_answer", "answer")
    (folder / "data/example.jsonl").write_text("\n".join(rows) + "\n")
    assert "line 3" in failing(folder)["example rows"]


def test_a_verifier_that_cannot_be_made_fails_its_checks_and_ends_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    made = islice(check_verifier(find_verifier("gym_llm/MathVerify-v0")), 6)  # all but its tests, which take long
    found = {check.subject: check for check in made}
    assert list(found) == ["config.yaml", "example rows", "metrics", "example rollouts", "rewards", "README.md"]
    for subject in ("example rows", "metrics", "rewards"):
        assert found[subject].state == "failed" and "math-verify" in found[subject].detail


def test_tests_that_cannot_be_run_are_no_success(tmp_path, monkeypatch, capsys):
    folder = write_verifier("untested", tmp_path)
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: None)
    assert results(folder)["tests"] == Check("tests", "not run", "they need pytest: pip install pytest")
    assert main(["env", "test", str(folder)]) == 1
    assert "  NOT RUN tests: they need pytest" in capsys.readouterr().out


def test_all_skips_a_verifier_whose_package_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    monkeypatch.setattr(registration, "env_ids", lambda: ["gym_llm/PolyMath-v0"])
    assert main(["env", "test", "--all"]) == 0
    assert "-      skipped: MathVerify needs the math-verify library" in capsys.readouterr().out
    assert main(["env", "test", "gym_llm/PolyMath-v0"]) == 1  # who asks for it is told that it fails


FILE = """
import gym_llm

class Sum(gym_llm.VerifierEnv):
    def generate(self, rng):
        return {"responses_create_params": {"input": f"What is {rng.integers(9)} + 1?"}}

    def verify(self, task, episode):
        return 1.0 * bool(episode.answer)
"""


def test_a_file_is_checked_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("sums_to_check.py").write_text(FILE)
    Path("test_sums_to_check.py").write_text("from sums_to_check import Sum\n\ndef test_it():\n    assert Sum\n")
    assert main(["env", "test", "./sums_to_check.py"]) == 0
    said = capsys.readouterr().out
    assert "ok     environment: sums_to_check/Sum-v0, without tools" in said and "ok     tests: 1 passed" in said
    assert "ok     Gymnasium: check_env finds nothing" in said


@pytest.mark.parametrize(
    ("change", "subject", "detail"),
    [
        (("1.0", "'much'"), "Gymnasium", "much"),
        (("rng.integers(9)", "rng.whole(9)"), "tasks", "whole"),
        (("gym_llm.VerifierEnv", "gym_llm.VerifierEnvironment"), "environment", "line 4: AttributeError"),
        (("gym_llm.VerifierEnv", "dict"), "environment", "has no environment"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(change, subject, detail, tmp_path):
    path = tmp_path / f"wrong_{subject}_{len(detail)}.py"
    path.write_text(FILE.replace(*change))
    failed = {check.subject: check.detail for check in check_file(str(path)) if check.state == "failed"}
    assert detail in failed[subject]


def test_training_data_without_a_licence_fails(tmp_path):
    folder = write_verifier("free_one", tmp_path)
    dataset = "    - {name: train, type: train, jsonl_fpath: train.jsonl}\n"
    (folder / "config.yaml").write_text((folder / "config.yaml").read_text() + dataset)
    assert "license" in failing(folder)["config.yaml"]
    (folder / "config.yaml").write_text(
        (folder / "config.yaml").read_text().replace("train.jsonl}", "a, license: MIT}")
    )
    assert results(folder)["config.yaml"] == Check("config.yaml", "ok", "can be read; train: MIT")


@pytest.mark.parametrize(
    "name", ["", "1st", "a-b", "a b", "../a", "class", "__a", "a__b", "json", "Json", "numpy", "gym_llm"]
)
def test_a_name_that_cannot_be_one_is_refused_and_nothing_is_written(name, tmp_path):
    with pytest.raises(DataError):
        write_verifier(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_that_is_there_is_overwritten(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="is there already"):
        write_verifier("mine", tmp_path)
    with pytest.raises(DataError, match="Cannot write"):
        write_verifier("mine", tmp_path / "nowhere")
    assert main(["env", "test"]) == 2 and main(["env", "test", "no_such_verifier"]) == 2
    assert "gym-llm list" in capsys.readouterr().err


def test_one_of_ours_is_found_by_its_name_and_its_id():
    assert find_verifier("gym_llm/MultipleChoice-v0") == find_verifier("multiple_choice")
    assert find_verifier("envs/multiple_choice" if Path("envs").is_dir() else str(ROOT / "envs/multiple_choice")) == (
        find_verifier("multiple_choice")
    )
    assert [path.name for path in find_verifier("multiple_choice").tests] == ["test_multiple_choice.py"]
