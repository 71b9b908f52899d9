"""The table of verifiers: printed, and kept in docs/environments.md."""

from __future__ import annotations

import inspect
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled
from testing import ROOT

import gym_llm
from gym_llm.author.catalogue import (
    TABLE,
    describe,
    ids_of,
    markdown_table,
    refresh_table,
    table_of_built_ins,
)
from gym_llm.cli import main
from gym_llm.core.registry.classes import known_arguments
from gym_llm.core.registry.env_files import dry_run_kwargs
from gym_llm.core.registry.ids import env_ids, register
from gym_llm.errors import DataError


class Piped(gym_llm.VerifierEnv):
    """Say a | or two."""

    def verify(self, task, episode):
        return 0.0


@pytest.fixture
def foreign():
    register("theirs/Piped-v0", Piped)
    register("theirs/Broken-v0", "no_such_module:Broken")
    yield
    del gym.registry["theirs/Piped-v0"], gym.registry["theirs/Broken-v0"]


def test_the_page_has_the_table_that_is_printed(monkeypatch, capsys):
    monkeypatch.chdir(ROOT / "docs")
    assert main(["list", "--format", "markdown"]) == 0
    printed = capsys.readouterr().out.splitlines(keepends=True)
    table = "".join(line for line in printed if not line.startswith("| `"))  # other packages' have no link
    block = (ROOT / "docs" / "environments.md").read_text("utf-8").partition("<!-- verifiers")[2].partition("-->\n")[2]
    assert block.partition("<!-- end of verifiers -->")[0] == table, "run `make environments`"


def test_only_the_block_of_a_page_is_written(tmp_path, foreign):
    readme = tmp_path / "README.md"
    readme.write_text("# Mine\n<!-- verifiers -->\nold | \\1\n<!-- end of verifiers -->\nrest \\g<1>\n")
    refresh_table(readme)
    assert readme.read_text() == "# Mine\n<!-- verifiers -->\n<!-- end of verifiers -->\nrest \\g<1>\n"


@pytest.mark.parametrize(("text", "problem"), [(None, "Cannot write"), ("# Mine\n", "has no place for the table")])
def test_a_file_without_a_block_is_refused(tmp_path, text, problem):
    if text:
        (tmp_path / "README.md").write_text(text)
    with pytest.raises(DataError, match=problem):
        refresh_table(tmp_path / "README.md")


def test_other_packages_verifiers_are_in_the_printed_table(foreign):
    table = markdown_table(ROOT)
    assert "| `theirs/Piped-v0` | Say a \\| or two. |  |  |  |\n" in table
    assert "| `theirs/Broken-v0` | cannot be made: ModuleNotFoundError" in table
    assert "| [`gym_llm/Weather-v0`](envs/weather/README.md) | " in table
    assert "| [`gym_llm/Weather-v0`](../envs/weather/README.md) | " in markdown_table(ROOT / "docs", inside=True)
    assert "theirs" not in markdown_table(ROOT, inside=True)


def test_what_a_verifier_is_said_to_be():
    about = describe("gym_llm/Counter-v0")
    assert about.summary.startswith("Add to a counter") and about.tasks == "5"
    assert about.tools == ["increment_counter", "get_counter_value"]
    assert describe("gym_llm/Weather-v0").tasks == "generated" and describe("gym_llm/Weather-v0").needs == []
    assert describe("gym_llm/SimpleQA-v0").needs == ["judge"]
    assert describe("gym_llm/CodeGen-v0").needs == describe("gym_llm/Harbor-v0").needs == ["sandbox"]
    assert describe("gym_llm/NSTools-v0").needs == ["judge", "sandbox"]


def test_the_packaged_table_is_fresh():
    assert TABLE.read_text("utf-8") == table_of_built_ins(), "run `make environments`"


@pytest.mark.slow
@pytest.mark.parametrize("env_id", env_ids())
def test_a_description_is_what_the_environment_says(env_id):
    try:
        env = gym.make(env_id, **dry_run_kwargs(env_id)).unwrapped
    except DependencyNotInstalled as error:
        pytest.skip(str(error))
    tasks = str(env.num_tasks or ("none" if env.tasks is None else "generated"))
    tools = [schema["name"] for schema in env.tool_schemas()]
    needs = [need for need in ("judge", "sandbox") if need in known_arguments(type(env))]
    if "build_network" in known_arguments(type(env)):  # the machines of Harbor have another argument
        needs = ["sandbox"]
    assert describe(env_id) == ((inspect.getdoc(env) or "").partition("\n")[0], tools, tasks, needs)


def test_listing_imports_no_built_in_verifier():
    code = "import sys; from gym_llm.cli import main; main(['list']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gym_llm.author.catalogue" in done.stdout and "gym_llm.envs.weather" not in done.stdout


def test_environments_are_listed_by_domain(monkeypatch, capsys, foreign):
    groups = ids_of(None)
    assert list(groups) == [*sorted(groups.keys() - {"other"}), "other"]
    assert "gym_llm/MathVerify-v0" in groups["math"] and "theirs/Piped-v0" in groups["other"]
    assert main(["list", "--domain", "math"]) == 0
    listed = capsys.readouterr().out
    assert "gym_llm/MathVerify-v0" in listed and "\tmath\t" in listed and "gym_llm/Weather-v0" not in listed
    assert main(["list", "--domain", "math", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("\n### Math\n\n| id |")
    assert main(["list", "--domain", "maths"]) == 2
    said = capsys.readouterr().err
    assert "'maths'. Did you mean math?" in said
    assert main(["list", "--domain", "math", "--into", "x.md"]) == 2


def test_another_packages_environment_has_its_domain(tmp_path, monkeypatch):
    folder = tmp_path / "theirs_with_domain"
    folder.mkdir()
    (folder / "__init__.py").write_text("from gym_llm import VerifierEnv\nclass Own(VerifierEnv): ...\n")
    (folder / "config.yaml").write_text("own: {env: theirs/Own-v0, domain: chemistry}\n")
    monkeypatch.syspath_prepend(tmp_path)
    register("theirs/Own-v0", "theirs_with_domain:Own")
    try:
        assert ids_of("chemistry") == {"chemistry": ["theirs/Own-v0"]}
    finally:
        del gym.registry["theirs/Own-v0"]
