"""`gym-llm env test` plays a verifier: it finds constant rewards, hooks that block, and masked episodes."""

import json
from pathlib import Path

import pytest

from gym_llm.cli import main

HEAD = """import asyncio
import time

from gym_llm import BaseTask, VerifierEnv


class Quiz(VerifierEnv):
    class Task(BaseTask):
        word: str

"""
GENERATES = """    def generate(self, rng):
        return self.row("Say otter.", word="otter")

"""
RIGHT = "    def verify(self, task, episode):\n        return float(task.word in episode.answer)\n"
ORACLE = "\n    def oracle(self, task):\n        return task.word\n"


@pytest.fixture
def check(tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    name = f"quiz_{abs(hash(request.node.name))}.py"  # a process loads a file of one name once

    def checked(source: str, *arguments: str) -> tuple[int, str]:
        Path(name).write_text(HEAD + source)
        code = main(["env", "test", name, *arguments])
        return code, capsys.readouterr().out

    return checked


def test_rewards_that_depend_on_the_answer_pass(check):
    code, said = check(GENERATES + RIGHT)
    assert code == 0 and "ok     rewards: 0 to 1, depending on the answer" in said
    assert "ok     event loop: no hook or tool blocks it" in said and "faults" not in said


@pytest.mark.parametrize("reward", ["1.0", "0.0", "-1.0"])
def test_a_verifier_that_pays_every_answer_the_same_fails(check, reward):
    constant = f"    async def verify(self, task, episode):\n        return {reward}\n"
    code, said = check(GENERATES + constant + ORACLE)
    assert code == 1 and "FAILED rewards: every answer to a task earns the same" in said


def test_without_an_oracle_a_constant_reward_above_0_fails(check):
    code, said = check(GENERATES + "    def verify(self, task, episode):\n        return 1.0\n")
    assert code == 1 and "earns the same (1), an empty one, too" in said


def test_wrong_answers_that_earn_nothing_are_no_failure(check):
    never = "    def verify(self, task, episode):\n        return float(episode.answer == 'seventeen')\n"
    code, said = check(GENERATES + never)
    assert code == 0 and "-      rewards: wrong answers earn 0; `oracle` can give a right one" in said


def test_a_hook_that_sleeps_in_the_event_loop_fails(check):
    code, said = check(GENERATES + RIGHT.replace("return", "time.sleep(0.4)\n        return"))
    assert code == 1 and "FAILED event loop: Quiz.verify, line" in said


def test_a_hook_that_waits_passes(check):
    waits = RIGHT.replace("def", "async def").replace("return", "await asyncio.sleep(0.4)\n        return")
    code, said = check(GENERATES + waits)
    assert code == 0 and "no hook or tool blocks it" in said


def test_a_hook_that_raises_fails(check):
    code, said = check(GENERATES + "    def verify(self, task, episode):\n        return 1 / len(episode.answer)\n")
    assert code == 1 and "FAILED rewards: 5 episodes are masked, the first: ZeroDivisionError" in said


def test_an_error_that_becomes_a_reward_fails(check):
    swallows = """
    def setup(self, task):
        verify = self.verify

        def quiet(task, episode):
            try:
                return verify(task, episode)
            except Exception:
                return 0.0

        self.verify = quiet
"""
    code, said = check(GENERATES + RIGHT + swallows)
    assert code == 1 and "FAILED faults: an error of verify becomes a reward" in said


def test_tasks_can_be_given(check):
    code, said = check(RIGHT)
    assert code == 0 and "try it with `--tasks FILE`" in said
    row = {"responses_create_params": {"input": "Say zebra lantern."}, "word": "zebra lantern"}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    code, said = check(RIGHT, "--tasks", "rows.jsonl")
    assert (
        code == 0 and "ok     tasks: 1; an episode begins with each of 1" in said and "ok     rewards: 0 to 1" in said
    )


def test_tasks_are_for_one_verifier(capsys):
    assert main(["env", "test", "--all", "--tasks", "rows.jsonl"]) == 2
    assert "--tasks is for one verifier" in capsys.readouterr().err


def test_the_attack_takes_tasks_under_the_same_name(check, capsys):
    check(RIGHT)
    Path("rows.jsonl").write_text(json.dumps({"responses_create_params": {"input": "Hm"}, "word": "otter"}) + "\n")
    (file,) = Path().glob("quiz_*.py")
    assert main(["env", "attack", str(file), "--tasks", "rows.jsonl", "--seconds", "5", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)[0]["tasks"] == 1
