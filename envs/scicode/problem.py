"""A problem of SciCode: its steps, and how they are tested."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym_llm import BaseTask
from gym_llm.envs.scicode.splitting import Split, defined_names, first_defined, split_test
from gym_llm.errors import DataError

GIVEN = ("13.6", "62.1", "76.3")
"""Steps of the benchmark that it gives the code of, and does not test."""


class Step(BaseModel):
    """A function to write, and how it is tested."""

    model_config = ConfigDict(extra="allow", frozen=True)

    step_number: str
    step_description_prompt: str
    step_background: str = ""
    ground_truth_code: str = ""
    function_header: str
    test_cases: list[str]
    return_line: str = ""
    targets: list[Any] | None = None

    @property
    def entry_point(self) -> str | None:
        """The function or class to write."""
        return first_defined(self.function_header)

    @property
    def is_given(self) -> bool:
        """Whether its code is given."""
        return self.step_number in GIVEN


class Problem(BaseTask):
    """The steps of a problem."""

    problem_id: str
    problem_name: str = ""
    problem_description_main: str = ""
    required_dependencies: str = ""
    sub_steps: list[Step] = Field(min_length=1)

    @model_validator(mode="after")
    def _can_be_tested(self) -> Problem:
        for step in self.sub_steps:
            if step.targets is not None and len(step.targets) < len(step.test_cases):
                raise ValueError(f"step {step.step_number} has fewer targets than test cases")
            if not step.test_cases and not step.is_given:
                raise ValueError(f"step {step.step_number} has no test cases")
        if not self.asked:
            raise ValueError("every step is given")
        return self

    @cached_property
    def asked(self) -> list[int]:
        """The steps that are asked for."""
        return [number for number, step in enumerate(self.sub_steps) if not step.is_given]

    def split_tests(self) -> list[list[Split]]:
        """The tests of each step.

        Raises:
            DataError: If one cannot be split.
        """
        return self._split_tests

    @cached_property
    def _split_tests(self) -> list[list[Split]]:
        sources = [text for step in self.sub_steps for text in (step.function_header, step.ground_truth_code)]
        names, classes = defined_names(sources), defined_names(sources, ("class",))
        try:
            return [
                [split_test(test, names, number, classes=classes) for number, test in enumerate(step.test_cases)]
                for step in self.sub_steps
            ]
        except ValueError as error:
            raise DataError(f"The tests of problem {self.problem_id} cannot be run safely: {error}.") from None
