"""Type checkers know the types of a verifier as its author writes it, and the options of `collect`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from testing import message, row

import gym_llm
from gym_llm import BaseTask, Episode, VerifierEnv
from gym_llm.rollouts.play import RolloutOptions
from gym_llm.rollouts.settings import RolloutSettings, SettingOptions

ROOT = Path(gym_llm.__file__).parents[1]
SCRIPT = """
from typing import assert_type

import gym_llm
from gym_llm import BaseTask, Episode, VerifierEnv


class QuizTask(BaseTask):
    word: str


class Quiz(VerifierEnv[QuizTask, list[int]]):
    def setup(self, task):
        assert_type(task, QuizTask)
        return [1]

    def user_turn(self, task, episode):
        assert_type(episode.state, list[int])
        return task.wrod  # error

    def verify(self, task, episode):
        assert_type(task.word, str)
        episode.state.add(2)  # error
        self.executes_tool  # error
        return float(task.word in episode.answer)


class Old(VerifierEnv):
    class Task(BaseTask):
        word: str

    def verify(self, task: Task, episode: Episode) -> float:
        return float(task.word in episode.answer)


records = gym_llm.collect("./quiz.py", "pocket", limit=3, concurrency=8, seed=1)
gym_llm.collect("./quiz.py", engin="pocket")  # error
gym_llm.collect("./quiz.py", limit="3")  # error
gym_llm.rollout("./quiz.py", concurency=3)  # error
"""


def test_mistakes_are_found_where_the_author_makes_them(tmp_path: Path) -> None:
    (tmp_path / "quiz.py").write_text(SCRIPT)
    paths = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "reportUnusedExpression": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(paths))
    command = (str(Path(sys.executable).with_name("basedpyright")), "--pythonpath", sys.executable, "--outputjson")
    ran = subprocess.run([*command, "quiz.py"], cwd=tmp_path, capture_output=True, text=True, env={**os.environ})
    found = json.loads(ran.stdout)["generalDiagnostics"]
    lines = {each["range"]["start"]["line"] for each in found if each["severity"] == "error"}
    wanted = {number for number, line in enumerate(SCRIPT.split("\n")) if line.endswith("# error")}
    assert lines == wanted, ran.stdout


class Word(BaseTask):
    word: str


class Spell(VerifierEnv[Word, list[str]]):
    def verify(self, task, episode):
        return float(task.word in episode.answer)


def test_the_type_parameter_is_the_schema_of_the_tasks() -> None:
    env = Spell([row(word="otter")])
    assert Spell.Task is Word and VerifierEnv.Task is BaseTask
    env.reset(seed=0)
    assert env.step(message("otter"))[1] == 1.0
    with pytest.raises(gym_llm.errors.DataError, match="word: Field required"):
        Spell([row()])


def test_a_nested_task_takes_precedence_and_is_inherited() -> None:
    class Longer(Spell):
        class Task(Word):
            length: int

    class Longest(Longer):
        pass

    assert Longest.Task is Longer.Task and Episode[int](0, {}, {"input": []}).state is None


def test_the_options_are_the_settings() -> None:
    assert SettingOptions.__annotations__.keys() == RolloutSettings.__dataclass_fields__.keys()
    assert RolloutOptions.__annotations__.keys() >= {"tasks", "limit", "settings"}


def test_help_describes_the_function() -> None:
    code = "import gym_llm; from gym_llm.rollouts.run import Run; help(gym_llm.rollout)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "function rollout in module" in said and "Play episodes, many at once" in said and "group_size:" in said
