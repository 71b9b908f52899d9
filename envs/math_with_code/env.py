r"""MathWithCode: mathematics with a Python tool, the answer in a box (NeMo Gym's `math_with_code`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gym_llm import BaseTask, Episode, Verdict, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.answers import last_boxed, strip_delimiters
from gym_llm.grading.call_matching import parse_arguments
from gym_llm.grading.math_answers import compare_without_algebra, read_answer
from gym_llm.grading.quotations import meant_words
from gym_llm.sandbox import check_seconds
from gym_llm.sandbox.python_tool import (
    EpisodePython,
    PythonSessionEnv,
    error_text,
    shortened,
)
from gym_llm.types import Item, Row, is_said, message_text

_TEXT = re.compile(r"\\text\{(.*)\}", re.DOTALL)
_CLOSE = 1e-6
_LONGEST = 10_000  # characters of an answer that is read as a number


class MathWithCode(PythonSessionEnv, NemoCompatible):
    r"""Answer a question of mathematics with the help of Python; 1.0 if the boxed answer is the expected one.

    The box is in the last message that has one, else in what a call printed. Two answers are the same if they are equal
    without delimiters and spaces, or the same number. Details: `extracted_answer`, `accuracy`, `num_tool_calls`,
    `tool_timeout_count`.

    Args:
        max_execution_time: `code_exec_timeout_s`, by NeMo Gym's name.
        conform: `"nemo"` reads no fraction or unit, and the last box only, as NeMo Gym does.
        **kwargs: As for every `PythonSessionEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    accepted_findings = {"look-alike/digits of another script": "they are the same digits"}
    python_tool = "execute_python"
    default_preload = ("numpy", "scipy", "sympy")  # not pandas, whose pyarrow starts a thread
    prelude = """
for _line in ("import numpy as np, numpy", "import scipy", "import pandas as pd, pandas"):
    try:
        exec(_line)
    except ImportError:
        pass
del _line
"""

    class Task(BaseTask):
        """The expected answer: a number, or LaTeX."""

        expected_result: str
        expected_code_contains: str = ""
        id: Any = None

    def __init__(
        self, tasks: str | list[Row] | None = None, *, max_execution_time: float = 10.0, **kwargs: Any
    ) -> None:
        check_seconds("max_execution_time", max_execution_time)
        super().__init__(tasks, **{"code_exec_timeout_s": max_execution_time, **kwargs})

    @tool
    async def execute_python(self, code: str, state: EpisodePython) -> dict[str, Any]:
        """Run Python code, with numpy, scipy and pandas at hand. What is defined is kept for the next call.

        Args:
            code: The code. What it prints is returned, and the value of the last line if that is an expression.
        """
        cell = await state.run(self, code)
        most = self.code_exec_max_output_chars
        error = error_text(cell, self.code_exec_timeout_s)
        in_short = error if cell.state_lost else error.rstrip().rpartition("\n")[2]  # a traceback's last line
        return {
            "success": cell.error is None,
            "stdout": shortened(cell.stdout, most),
            "stderr": shortened(cell.stderr + ("" if cell.state_lost else error), most),
            "error_message": shortened(in_short, most) if error else None,
            "result": None if cell.text is None else shortened(cell.text, most),
        }

    @tool
    async def end_session(self, state: EpisodePython) -> dict[str, Any]:
        """Throw away all that was defined; the next call begins anew."""
        await state.close()
        return {"success": True, "stdout": "", "stderr": "", "error_message": None, "result": None}

    def oracle(self, task: Task) -> str:
        """Return the expected result in a box."""
        return f"\\boxed{{{task.expected_result}}}"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Find the box and compare what is in it."""
        box = _box_as_nemo_gym if self.conform else lambda text: last_boxed(meant_words(text, episode))
        answer = _boxed_answer(episode.items, box)
        correct = answer is not None and self._is_same(answer, task.expected_result)
        details = {"extracted_answer": answer, "accuracy": correct, **self.tool_use(episode)}
        return Verdict(float(correct), details)

    def _is_same(self, answer: str, expected: str) -> bool:
        answer, expected = _normal(answer), _normal(expected)
        if answer == expected:
            return True
        if not self.conform:
            gold, found = read_answer(expected), read_answer(answer)
            return gold is not None and found is not None and compare_without_algebra(gold, found) is True
        number, wanted = _plain_number(answer), _plain_number(expected)
        if number is None or wanted is None:
            return False
        return abs(number - wanted) < _CLOSE * max(1.0, abs(wanted))


def _boxed_answer(items: list[Item], box: Callable[[str], str | None]) -> str | None:
    for item in reversed(items):
        if is_said(item) and (answer := (box(message_text([item])) or "").strip()):
            return answer
    for item in reversed(items):
        if item.get("type") == "function_call_output" and (answer := (box(_printed(item)) or "").strip()):
            return answer
    return None


def _box_as_nemo_gym(text: str) -> str | None:
    """Return the content of the last box if it is closed, as NeMo Gym does: escaped braces count as braces."""
    _, mark, rest = text.rpartition("\\boxed{")
    depth = 1
    for brace in re.finditer("[{}]", rest if mark else ""):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return rest[: brace.start()]
    return None


def _printed(item: Item) -> str:
    output = item["output"] if isinstance(item["output"], str) else ""
    said = parse_arguments(output)
    printed = said.get("stdout", "") if isinstance(said, dict) else output
    return printed if isinstance(printed, str) else ""


def _normal(answer: str) -> str:
    answer = strip_delimiters(answer)
    if match := _TEXT.fullmatch(answer):
        answer = match[1]
    return " ".join(answer.split())


def _plain_number(text: str) -> float | None:
    try:
        return float(text[:_LONGEST])
    except (ValueError, OverflowError):
        return None
