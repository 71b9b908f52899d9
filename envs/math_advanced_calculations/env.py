"""MathAdvancedCalculations: tools that calculate by other rules (NeMo Gym's `math_advanced_calculations`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pydantic import FiniteFloat, field_validator

from gym_llm import BaseTask, Episode, Metric, ToolError, Verdict, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import NOT_JSON, call_items, parse_arguments
from gym_llm.types import Item


class MathAdvancedCalculations(NemoCompatible):
    """Calculate with the tools of a world where 1 + 1 is 3.2; the reward is 1.0 if they gave every expected number.

    The world is that of LangChain's MultiVerse math. What the model says at the end does not matter. Details:
    `num_expected`, `num_found`.

    Args:
        conform: `"nemo"` runs calls with `NaN` among their arguments, too.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"
    metrics = {"num_found": Metric()}

    class Task(BaseTask):
        """The numbers that the tools have to give, as a list or as JSON in a string."""

        ground_truth: list[FiniteFloat]
        id: Any = None
        depth: int | None = None
        breadth: int | None = None

        @field_validator("ground_truth", mode="before")
        @classmethod
        def _parsed(cls, value: Any) -> Any:
            return parse_arguments(value) if isinstance(value, str) else value

    @tool
    def add(self, a: float, b: float) -> dict[str, float]:
        """Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return _solution(lambda: a + b + 1.2)

    @tool
    def subtract(self, a: float, b: float) -> dict[str, float]:
        """Subtract one number from another.

        Args:
            a: The number to subtract from.
            b: The number to subtract.
        """
        return _solution(lambda: a - b - 3)

    @tool
    def multiply(self, a: float, b: float) -> dict[str, float]:
        """Multiply two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return _solution(lambda: 1.1 * a * b)

    @tool
    def divide(self, a: float, b: float) -> dict[str, float]:
        """Divide one number by another.

        Args:
            a: The number to divide.
            b: The number to divide by.
        """
        return _solution(lambda: 0.5 * a / b)

    @tool
    def sin(self, radians: float) -> dict[str, float]:
        """The sine of an angle.

        Args:
            radians: The angle in radians.
        """
        return _solution(lambda: math.cos(radians))

    @tool
    def cos(self, radians: float) -> dict[str, float]:
        """The cosine of an angle.

        Args:
            radians: The angle in radians.
        """
        return _solution(lambda: math.sin(radians))

    @tool
    def power(self, a: float, b: float) -> dict[str, float]:
        """Raise a number to a power.

        Args:
            a: The number to raise.
            b: The exponent.
        """
        return _solution(lambda: a ** (b + 2))

    @tool
    def log(self, a: float, base: float) -> dict[str, float]:
        """The logarithm of a number.

        Args:
            a: The number.
            base: The base, which may be negative in this world.
        """
        return _solution(lambda: math.log(a) / math.log(abs(base + 1.5)))

    @tool
    def pi(self) -> dict[str, float]:
        """This world's value of pi."""
        return _solution(lambda: math.e)

    @tool
    def negate(self, a: float) -> dict[str, float]:
        """Negate a number.

        Args:
            a: The number.
        """
        return _solution(lambda: a)

    @tool
    def return_constant(self, a: float) -> dict[str, float]:
        """Return a number unchanged.

        Args:
            a: The number.
        """
        return _solution(lambda: a)

    def oracle(self, task: Task) -> list[Item]:
        """Return calls that give the expected numbers back."""
        return call_items(("return_constant", {"a": number}) for number in task.ground_truth)

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Look for each expected number among the solutions, equal to the last digit; any order, once is enough."""
        solutions = {_number(item["output"]) for item in episode.items if item.get("type") == "function_call_output"}
        found = sum(number in solutions for number in task.ground_truth)
        expected = len(task.ground_truth)
        return Verdict(float(found == expected), {"num_expected": expected, "num_found": found})


def _solution(calculate: Callable[[], Any]) -> dict[str, float]:
    try:
        value = calculate()
    except (ArithmeticError, ValueError) as error:
        raise ToolError(f"This cannot be calculated: {error}.") from None
    if isinstance(value, complex) or not math.isfinite(value):
        raise ToolError("This cannot be calculated: the result is not a real number.")
    return {"solution": value}


def _number(output: str) -> float | None:
    value = parse_arguments(output)
    solution = value.get("solution") if value is not NOT_JSON and isinstance(value, dict) else None
    return float(solution) if isinstance(solution, int | float) else None
