"""Verifiers with one hole each, and sound ones beside them, for the tests of `gym_llm.author.attack`."""

from __future__ import annotations

import random
import re
from typing import Any

from gym_llm import BaseTask, Episode, ToolError, VerifierEnv, tool
from gym_llm.judge import JudgedEnv
from gym_llm.types import Row

CITIES = (("France", "Paris"), ("Norway", "Oslo"), ("Peru", "Lima"), ("Japan", "Tokyo"))


def rows(asked: str, pairs: Any, **fields: Any) -> list[Row]:
    """Rows that ask for the second of each pair."""
    return [
        {"responses_create_params": {"input": asked.format(one)}, "expected_answer": other, **fields}
        for one, other in pairs
    ]


CAPITALS = rows("What is the capital of {}? Answer with its name and nothing else.", CITIES)
SUMS = rows("What is {}? Put the number into \\boxed{{}}.", (("17 + 25", 42), ("30 - 19", 11), ("8 * 12", 96)))


class _Env(VerifierEnv):
    """Takes the class's rows."""

    ROWS = CAPITALS

    class Task(BaseTask):
        expected_answer: Any

    def __init__(self, tasks: Any = None, **kwargs: Any) -> None:
        super().__init__(tasks or self.ROWS, **kwargs)


class _Exact(_Env):
    """Sound: the name, whatever its case."""

    def verify(self, task: Any, episode: Episode) -> float:
        return float(episode.answer.strip().lower() == task.expected_answer.lower() != "")


class _Boxed(_Env):
    """Sound: the number in the last box."""

    ROWS = SUMS

    def verify(self, task: Any, episode: Episode) -> float:
        boxes = re.findall(r"\\boxed\{\s*(-?[0-9]{1,9})\s*\}", episode.answer)
        return float(bool(boxes) and int(boxes[-1]) == task.expected_answer)


class Exact(_Exact):
    """Sound."""


class Boxed(_Boxed):
    """Sound."""


class Substring(_Env):
    """Pays whatever has the answer in it."""

    def verify(self, task: Any, episode: Episode) -> float:
        return float(task.expected_answer.lower() in episode.answer.lower())


class AnyBox(_Boxed):
    """Pays if any of the boxes is right."""

    def verify(self, task: Any, episode: Episode) -> float:
        return float(str(task.expected_answer) in re.findall(r"\\boxed\{\s*(-?[0-9]+)\s*\}", episode.answer))


class NotANumber(_Boxed):
    """Compares so that NaN is never too far away."""

    def verify(self, task: Any, episode: Episode) -> float:
        boxes = re.findall(r"\\boxed\{\s*([-\w.+]+)\s*\}", episode.answer)
        try:
            return float(bool(boxes) and not abs(float(boxes[-1]) - task.expected_answer) > 1e-6)
        except ValueError:
            return 0.0


class Thoughts(_Env):
    """Reads reasoning, too."""

    def verify(self, task: Any, episode: Episode) -> float:
        return float(
            task.expected_answer.lower() in (episode.answer.strip().lower(), episode.reasoning.strip().lower())
        )


class Remembers(_Env):
    """Never forgets that somebody was right."""

    solved: set[str] = set()

    def verify(self, task: Any, episode: Episode) -> float:
        if episode.answer.strip() == task.expected_answer:
            self.solved.add(task.expected_answer)
        return float(task.expected_answer in self.solved)


class Generous(_Env):
    """Pays what it cannot read."""

    ROWS = SUMS

    def verify(self, task: Any, episode: Episode) -> float:
        try:
            return float(int(episode.answer.strip("\\boxed{} ")) == task.expected_answer)
        except ValueError:
            return 1.0


class HashOrder(_Env):
    """Looks at the first of a set of words."""

    def verify(self, task: Any, episode: Episode) -> float:
        return float(next(iter(set(episode.answer.split()) or {""})) in (task.expected_answer, "red", "blue"))


class Moody(_Env):
    """Sometimes says no."""

    def verify(self, task: Any, episode: Episode) -> float:
        return float(episode.answer.strip() == task.expected_answer and random.random() < 0.8)


class Evaluates(_Env):
    """Runs what a model writes."""

    ROWS = SUMS

    def verify(self, task: Any, episode: Episode) -> float:
        try:
            return float(eval(episode.answer.strip()) == task.expected_answer)  # noqa: S307
        except Exception:
            return 0.0


class TellsInInfo(_Exact):
    """Tells the answer in the info."""

    def reset(self, **kwargs: Any) -> Any:  # type: ignore[override]
        observation, info = super().reset(**kwargs)
        return observation, {**info, "hint": self._task.expected_answer}


class _Cabinet(_Exact):
    """Sound: a tool that knows nothing of the answer."""

    @tool
    def notes(self, key: str, value: str, state: Any) -> str:
        """Write a note.

        Args:
            key: Its name.
            value: What it says.
        """
        state[key] = value
        return "written"

    def setup(self, task: Any) -> dict[str, Any]:
        return {}


class Cabinet(_Cabinet):
    """Sound."""


class OpenCabinet(_Cabinet):
    """Its tool writes over what is graded."""

    def setup(self, task: Any) -> dict[str, Any]:
        return {"expected": task.expected_answer}

    def verify(self, task: Any, episode: Episode) -> float:
        return float(episode.answer.strip() == episode.state["expected"])


class GlassCabinet(_Exact):
    """Its tool reads what is graded."""

    @tool
    def read(self, key: str, state: Any) -> str:
        """Read a note.

        Args:
            key: Its name.
        """
        if key not in state:
            raise ToolError("there is no such note")
        return str(state[key])

    def setup(self, task: Any) -> dict[str, Any]:
        return {"weather": "rain", "expected_answer": task.expected_answer}


class Farm(_Env):
    """Pays for every call."""

    @tool
    def look(self) -> str:
        """Look around."""
        return "nothing"

    def verify(self, task: Any, episode: Episode) -> float:
        calls = sum(1 for _ in episode.function_calls())
        return float(episode.answer.strip() == task.expected_answer) / 2 + min(0.5, 0.02 * calls)


class Judged(JudgedEnv):
    """Pays, too, if its judge cannot be understood."""

    dry_run_kwargs = {"judge": "constant:YES"}
    judge_prompts = {"judge": {"user": "Is {answer} right? It should be {gold}. Say YES or NO."}}

    def __init__(self, tasks: Any = None, **kwargs: Any) -> None:
        super().__init__(tasks or CAPITALS, **kwargs)

    async def verify(self, task: Any, episode: Episode) -> float:
        judgement = await self.ask(
            {"answer": episode.answer, "gold": task.expected_answer},
            lambda text: {"YES": 1.0, "NO": 0.0}.get(text.strip()),
            unparsable=1.0,
        )
        return float(judgement.value)
