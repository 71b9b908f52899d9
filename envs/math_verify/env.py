r"""MathVerify: mathematical answers, compared by the math-verify library (NeMo Gym's `math_with_judge`, no judge)."""

from __future__ import annotations

import importlib.util
import re
from functools import cached_property
from importlib.metadata import version
from typing import Any

from gymnasium.error import DependencyNotInstalled
from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.concurrency.processes import check_settings, shared_pool
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.grading.answers import strip_delimiters
from gym_llm.grading.math_answers import MathAnswer, read_answer, verdict_without_algebra
from gym_llm.grading.quotations import meant_words
from gym_llm.types import Row
from gym_llm.utils.extras import install

_compared: dict[tuple[MathAnswer, MathAnswer], bool] = {}
"""What algebra said of an expected answer and an answer: those to one task repeat."""
_MOST_COMPARED = 10_000


_ORDER = re.compile(
    r"\b(?:respectively|in (?:that|this|the (?:same|given|following)) order|ordered (?:pairs?|triples?|tuples?)"
    r"|(?:in|de)creasing order|(?:a|de)scending order|from (?:least|smallest|lowest|greatest|largest|highest) to)\b",
    re.IGNORECASE,
)


class MathVerify(VerifierEnv):
    r"""Answer a question of mathematics; the reward is 1.0 if the answer equals the expected one.

    Many forms are read: `\boxed{}`, "the final answer is …", other LaTeX; each is read whole or not at all. Details:
    `extracted_answer` (the model's text, or None), `timed_out`, `math_verify_version`.

    Args:
        deadline: CPU seconds that an answer may take. Beyond it the worker process is killed and the reward is 0.0.
            NeMo Gym allows 5 seconds to read and 5 to compare, by the clock.
        workers: Maximum number of worker processes. Environments of a process with the same settings share them. None
            for one per usable core, at most 4.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DependencyNotInstalled: Without the math-verify library.
        ValueError: If an argument makes no sense.
    """

    grader = "gym_llm.envs.math_verify.grading:grade"
    metrics = {"timed_out": Metric("rate", higher_is_better=False)}
    accepted_findings = {
        "near miss/a sum that makes it": "an expression that equals the answer is the answer",
        "look-alike/digits of another script": "they are the same digits",
        "all options": "which of several expressions without a box counts is the choice of math-verify",
        "cost/1 MB of '\\\\boxed{'": "the library has the CPU seconds of `deadline`, then its process is killed",
    }

    class Task(BaseTask):
        r"""The expected answer, in LaTeX with or without `\(…\)`, `$…$` or `$$…$$` around it."""

        expected_answer: str
        question: str | None = None

        @field_validator("expected_answer", mode="before")
        @classmethod
        def _as_text(cls, answer: Any) -> Any:
            """GSM8K's rows have numbers."""
            return str(answer) if type(answer) in (int, float) else answer

        @field_validator("expected_answer")
        @classmethod
        def _readable(cls, answer: str) -> str:
            if strip_delimiters(answer) and answer.strip("$ ") and read_answer(strip_delimiters(answer)) is None:
                raise ValueError(
                    f"expected_answer {answer[:80]!r} cannot be read as mathematics: correct or remove the row"
                )
            return answer

        @field_validator("expected_answer")
        @classmethod
        def _not_empty(cls, answer: str) -> str:
            if not strip_delimiters(answer):
                raise ValueError("expected_answer is empty")
            if not answer.strip("$ "):
                raise ValueError(f"expected_answer {answer!r} is not an expression: correct or remove the row")
            return answer

        @cached_property
        def gold(self) -> str:
            """The expected answer without delimiters."""
            return strip_delimiters(self.expected_answer)

        @cached_property
        def reading(self) -> MathAnswer | None:
            """The expected answer as it is read; None if it cannot be."""
            return read_answer(self.gold)

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        deadline: float = 10.0,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise DependencyNotInstalled(
                f"MathVerify needs the math-verify library, which is not installed: {install('math')}"
            )
        check_settings(deadline, workers)
        super().__init__(tasks, **kwargs)
        self.deadline = deadline
        self.workers = workers
        self.library_version = version("math-verify")

    def oracle(self, task: Any) -> str:
        """Return the expected answer in a box."""
        return f"\\boxed{{{task.gold}}}"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Have a worker process compare the last message with the expected answer."""
        correct, answer, timed_out = False, None, False
        try:
            if self.grader == MathVerify.grader:
                task = _with_order(task, episode.question)
            correct, answer = await self.grade(task, self.text_of(episode))
        except DeadlinePassed as error:
            answer, timed_out = error.note, True
        except WorkerDied:
            pass  # what a model writes can exhaust a worker's memory or stack: no answer, but no failure of ours either
        details = {"extracted_answer": answer, "timed_out": timed_out, "math_verify_version": self.library_version}
        return Verdict(float(correct), details)

    def text_of(self, episode: Episode) -> str:
        """Return what is read of the last message."""
        return meant_words(episode.answer, episode) if self.grader == MathVerify.grader else episode.answer

    async def grade(self, task: Task, text: str) -> tuple[bool, str | None]:
        """Return whether a text has the expected answer, and the answer in it; a worker does what needs algebra."""
        pair = None
        if self.grader == MathVerify.grader and task.reading is not None:
            correct, answer, found = verdict_without_algebra(task.reading, text)
            pair = None if found is None else (task.reading, found)
            if correct is None and pair is not None:
                correct = _compared.get(pair)
            if correct is not None:
                return correct, answer
        pool = shared_pool(self.grader, deadline=self.deadline, workers=self.workers)
        graded: tuple[bool, str | None] = await pool.call((task.gold, text))
        if pair is not None:
            if len(_compared) >= _MOST_COMPARED:
                _compared.clear()
            _compared[pair] = graded[0]
        return graded


def _with_order(task: MathVerify.Task, question: str) -> MathVerify.Task:
    """Return the task with the list of its values as a tuple, if the question asks for their order."""
    gold, reading = task.gold, task.reading
    if "," not in gold or reading is None or reading.latex is None or gold.startswith(("(", "[", "\\")):
        return task
    if "=" in gold or not _ORDER.search(question):
        return task
    return type(task).model_validate({**task.model_dump(), "expected_answer": f"({gold})"})
