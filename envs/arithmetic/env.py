"""Arithmetic: endless sums with one whole number as the answer."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gym_llm import BaseTask, Episode, VerifierEnv
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.quantities import read_quantity
from gym_llm.grading.quotations import meant_words
from gym_llm.types import Row, Verdict

QUESTIONS = (
    "What is {}? Put the answer in \\boxed{{}}.",
    "Compute {}. Put the answer in \\boxed{{}}.",
    "Calculate {}. Put the answer in \\boxed{{}}.",
    "How much is {}? Put the answer in \\boxed{{}}.",
)


class Arithmetic(VerifierEnv):
    r"""Work out a sum; the reward is 1.0 if the last `\boxed{}` holds the right whole number.

    Args:
        digits: Numbers are drawn uniformly from 0 to 10**digits - 1; 1 to 9.
        operations: Some of `+`, `-` and `*`, drawn with equal chances, e.g. `"+-"`.
        terms: The number of terms; 2 to 9. `*` binds more tightly than `+` and `-`.
        **kwargs: See `VerifierEnv`. With `tasks`, nothing is generated.
    """

    accepted_findings = {"look-alike/digits of another script": "they are the same digits"}

    class Task(BaseTask):
        """The right number in its shortest form."""

        expected_answer: str = Field(pattern=r"^(0|-?[1-9][0-9]*)$")

    class Config(VerifierEnv.Config):
        """The difficulty of the sums."""

        digits: int = Field(2, ge=1, le=9)
        operations: str = Field("+-", pattern=r"^[-+*]+$")
        terms: int = Field(2, ge=2, le=9)

    config: Config

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw numbers, operations and one of a few wordings."""
        value, product, sign = 0, int(rng.integers(10**self.config.digits)), 1
        problem = str(product)
        for _ in range(self.config.terms - 1):
            operation = self.config.operations[rng.integers(len(self.config.operations))]
            number = int(rng.integers(10**self.config.digits))
            problem += f" {operation} {number}"
            if operation == "*":
                product *= number
            else:
                value += sign * product
                product, sign = number, 1 if operation == "+" else -1
        question = QUESTIONS[rng.integers(len(QUESTIONS))].format(problem)
        return {
            "responses_create_params": {"input": [{"role": "user", "content": question}]},
            "expected_answer": str(value + sign * product),
        }

    def oracle(self, task: Task) -> str:
        """Return the right number in a box."""
        return f"\\boxed{{{task.expected_answer}}}"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the last box with `expected_answer` as whole numbers, in any usual form but without a unit."""
        boxed = last_boxed(meant_words(episode.answer, episode))
        number = None if boxed is None else read_quantity(boxed)
        is_whole = number is not None and not number.unit and number.value.denominator == 1
        answer = str(number.value) if number is not None and is_whole else None
        return Verdict(float(answer == task.expected_answer), {"extracted_answer": answer})
