"""A verifier is its folder: in a copy of the repository one is added, and nothing else is edited."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from testing import copy_repository, python_in, row

pytestmark = pytest.mark.slow

ENV_ID = "gym_llm/Echo-v12"
FILES = {
    "__init__.py": '"""Echo: see README.md in this folder."""\n',
    "README.md": "# Echo\n\nThe model says a word after us.\n\nThe five tasks in `data/example.jsonl`: Apache-2.0.\n",
    "config.yaml": f"""\
echo:
  env: {ENV_ID}
  nemo_gym: [parrot]
  kwargs: {{}}
  domain: other
  datasets:
    - name: example
      type: example
      jsonl_fpath: data/example.jsonl
""",
    "data/example.jsonl": "".join(f"{json.dumps(row(f'Say {word}.', word=word))}\n" for word in "abcde"),
    "env.py": '''\
"""Echo: saying a word after us."""

from __future__ import annotations

from gym_llm import BaseTask, Episode, Verdict, VerifierEnv, tool


class Echo(VerifierEnv):
    """Say a word after us; the reward is 1.0 if the answer has it, 0.5 if it was only spelt."""

    class Task(BaseTask):
        """The word."""

        word: str

    def setup(self, task: Task) -> list[str]:
        """The letters that were asked for: none."""
        return []

    @tool
    def spell(self, state: list[str], letter: str) -> str:
        """Say one letter.

        Args:
            letter: One letter of the word.
        """
        state.append(letter)
        return f"{letter}, as in echo"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Whether the answer has the word, or the letters were those of it."""
        spelt = "".join(episode.state) == task.word
        return Verdict(1.0 if task.word in episode.answer else spelt / 2, {"spelt": spelt})
''',
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_repository(tmp_path_factory.mktemp("repository"))
    for name, text in FILES.items():
        path = root / "envs" / "echo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def gym_llm(root: Path, *args: str, cwd: Path | None = None) -> str:
    done = python_in(root, "-m", "gym_llm.cli", *args, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_verifier_is_as_short_as_promised() -> None:
    assert len(FILES["env.py"].splitlines()) <= 35


def test_it_is_listed(root: Path) -> None:
    (line,) = (line for line in gym_llm(root, "list").splitlines() if ENV_ID in line)
    assert "Say a word after us" in line and "spell" in line


@pytest.mark.xdist_group("ray")
def test_gym_make_and_make_vec_over_ray_play_it(root: Path) -> None:
    code = f"""
import gymnasium as gym
import gym_llm
say = lambda text: [{{"type": "message", "role": "assistant", "content": text}}]
env = gym.make("{ENV_ID}")
env.reset(options={{"task_index": 1}})
print(env.step(say("b"))[1])
envs = gym.make_vec("{ENV_ID}", num_envs=2, num_shards=2)
envs.reset(options={{"task_index": 0}})
print(type(envs.unwrapped).__name__, envs.unwrapped.num_shards, *envs.step([say("a"), say("b")])[1])
envs.close()
"""
    done = python_in(root, "-c", code)
    if "RayUnavailable" in done.stderr:
        pytest.skip("Ray cannot start here")
    assert done.stdout.split() == ["1.0", "RayVectorEnv", "2", "1.0", "0.0"], done.stdout + done.stderr


def test_env_test_runs_the_tests_that_all_share(root: Path) -> None:
    printed = gym_llm(root, "env", "test", "echo")
    assert "FAILED" not in printed and re.search(r"ok     tests: 1\d passed", printed)


def test_nemo_gyms_name_and_the_example_rows_are_found_from_anywhere(root: Path, tmp_path: Path) -> None:
    (tmp_path / "nemo.yaml").write_text("theirs: {resources_servers: {parrot: {entrypoint: app.py}}}\n")
    files = ("--config", "nemo.yaml", "--config", f"{root}/envs/echo/config.yaml")
    printed = gym_llm(root, "config", *files, cwd=tmp_path)
    assert printed.count(f"env: {ENV_ID}") == 2 and f"jsonl_fpath: {root}/envs/echo/data/example.jsonl" in printed


def test_the_wheel_has_it(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    done = python_in(root, "-c", f"import hatchling.build as backend; backend.build_wheel({str(tmp_path)!r})")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert {f"gym_llm/envs/echo/{name}" for name in FILES} <= set(zipfile.ZipFile(wheel).namelist())


def test_the_table_is_checked_and_refreshed_by_one_command(root: Path) -> None:
    check = ("-m", "pytest", "-p", "no:cacheprovider", "tests/gym_llm/author/test_catalogue.py", "-k", "page_has")
    checked = python_in(root, *check)
    assert checked.returncode == 1 and "Echo" in checked.stdout, checked.stdout
    gym_llm(root, "list", "--format", "markdown", "--into", "docs/environments.md")
    assert (
        "| [`gym_llm/Echo-v12`](../envs/echo/README.md) | Say a word after us;"
        in (root / "docs" / "environments.md").read_text()
    )
    checked = python_in(root, *check)
    assert checked.returncode == 0, checked.stdout
