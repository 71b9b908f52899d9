"""The mistakes of a first verifier: one sentence, and the author's own lines, not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_llm.cli import main

FILE = """
from gym_llm import BaseTask, VerifierEnv


def grade(answer):
    return int(answer["x"])


class Quiz(VerifierEnv):
    {body}
"""
MAKES = "def generate(self, rng):\n        return self.row('2+2?', answer=4)\n"
VERIFIES = "def verify(self, task, episode):\n        return 1.0\n"


@pytest.mark.parametrize(
    ("name", "parts", "code", "sentences"),
    [
        (
            "raises",
            [MAKES, "def verify(self, task, episode):\n        return grade(episode.answer)"],
            1,
            ["failed in verify", "TypeError: string indices", "in verify: return grade(episode.answer)", "in grade:"],
        ),
        (
            "swapped",
            [MAKES, "def verify(self, episode, task):\n        return float(episode.answer == '4')"],
            2,
            ["Quiz.verify is called as verify(self, task, episode), but takes (self, episode, task)."],
        ),
        (
            "annotated",
            [MAKES, "def verify(self, it: 'Episode[None]', what):\n        return 1.0"],
            2,
            ["Quiz.verify is called as verify(self, task, episode), but takes (self, it, what)."],
        ),
        (
            "no_super",
            ["def __init__(self, tasks=None, **more):\n        self.words = {}\n", MAKES, VERIFIES],
            2,
            ["Quiz.__init__ has to call super().__init__(tasks, **arguments) first."],
        ),
        (
            "no_number",
            [MAKES, "def verify(self, task, episode):\n        return '4'"],
            1,
            ["failed in verify. This is logged once: InvalidReward: A reward is a finite number, but verify returned"],
        ),
        (
            "field",
            ["class Task(BaseTask):\n        word: str\n", MAKES, VERIFIES],
            2,
            ["Quiz.generate makes a row that cannot be played: word: Field required"],
        ),
        (
            "no_row",
            ["def generate(self, rng):\n        return None\n", VERIFIES],
            2,
            ["Quiz.generate makes a row that cannot be played: a row is a JSON object, got NoneType"],
        ),
        (
            "generate",
            ["def generate(self, rng):\n        return self.row(grade({}))\n", VERIFIES],
            1,
            ["gym-llm: KeyError: 'x'", "in generate: return self.row(grade({}))", "in grade:"],
        ),
    ],
)
@pytest.mark.parametrize("command", ["rollout", "eval"])
def test_a_mistake_is_named_with_the_authors_lines(
    name: str,
    parts: list[str],
    code: int,
    sentences: list[str],
    command: str,
    in_an_empty_folder: None,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = Path(f"{name}_{command}.py")
    path.write_text(FILE.format(body="\n    ".join(parts)))
    assert main([command, f"./{path}", "--limit", "2", "--engine", "constant:4", "--output", "out"]) == code
    said = "\n".join([*caplog.messages, capsys.readouterr().err])
    assert all(sentence in said for sentence in sentences), said
    assert "Traceback" not in said and "gym_llm/" not in said and len(said.splitlines()) <= 5
