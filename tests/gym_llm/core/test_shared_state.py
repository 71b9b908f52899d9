"""What a class holds is shared by all episodes: a change by one is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym_llm import VerifierEnv
from gym_llm.cli import main

FILE = """
from typing import ClassVar

from gym_llm import VerifierEnv


class Quiz(VerifierEnv):
    {attribute}

    def generate(self, rng):
        return self.row(f"{{rng.integers(9)}}")

    def oracle(self, task):
        return "yes"

    def verify(self, task, episode{parameter}):
        {statement}
        return float(episode.answer == "yes")
"""


@pytest.mark.parametrize(
    ("attribute", "parameter", "statement", "name"),
    [
        ("seen = []", "", "self.seen.append(episode.answer)", "seen"),
        ("_seen = set()", "", "self._seen.add(id(episode))", "_seen"),
        ("counts = {'right': 0}", "", "self.counts['right'] += 1", "counts"),
        ("seen = []", "", "self.seen[:] = [episode.answer]", "seen"),
        ("x = 1", ", seen=[]", "seen.append(1)", "verify(seen=)"),
        ("words = ['a', 'b']", "", "'a' in self.words", ""),
        ("seen: ClassVar[list[str]] = []", "", "self.seen.append(episode.answer)", ""),
        ("answer_cache = {}", "", "self.answer_cache[id(episode)] = 1", ""),
        ("seen = []", "", "self.seen = [*self.seen, 1]", ""),
    ],
)
def test_a_change_of_what_all_episodes_share_is_noticed(
    attribute: str,
    parameter: str,
    statement: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quiz.py").write_text(FILE.format(attribute=attribute, parameter=parameter, statement=statement))
    assert main(["env", "test", "./quiz.py"]) == bool(name)
    assert ("An episode changed Quiz." in capsys.readouterr().out) == bool(name)
    warnings = [line for line in caplog.messages if "all episodes share" in line]
    assert len(warnings) == bool(name) and all(f"Quiz.{name}," in line for line in warnings)


def test_a_class_that_others_fill_before_the_first_episode_is_not_blamed(caplog: pytest.LogCaptureFixture) -> None:
    class Filled(VerifierEnv[Any, None]):
        words: list[str] = []

        def verify(self, task: Any, episode: Any) -> float:
            return float("a" in self.words)

    Filled.words.append("a")
    env = Filled(tasks=[Filled.row("?")])
    for _ in range(5):
        env.reset(seed=0)
        env.step([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}])
    assert not Filled.changed_by_episodes() and not caplog.messages
