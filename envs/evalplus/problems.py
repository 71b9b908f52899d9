"""Problems of HumanEval+ and MBPP+, and the outputs of their references."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym_llm.envs.evalplus.input_forms import input_form
from gym_llm.errors import DataError
from gym_llm.sandbox import Limits, Sandbox
from gym_llm.sandbox.functions import Functions


class Outputs(BaseModel):
    """The expected outputs, one for each input."""

    model_config = ConfigDict(frozen=True)

    base: list[Any]
    plus: list[Any] = []


class Problem(BaseModel):
    """A problem as in the evalplus package's files, with `expected` or `canonical_solution` or both."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    prompt: str
    entry_point: str
    base_input: Annotated[list[list[Any]], Field(min_length=1)]  # without inputs, every program would be right
    plus_input: list[list[Any]] = []
    expected: Outputs | None = None
    canonical_solution: str | None = None
    atol: float = 0.0

    @model_validator(mode="after")
    def _can_be_compared(self) -> Problem:
        if self.expected is None and self.canonical_solution is None:
            raise ValueError("a problem needs `expected` or `canonical_solution`")
        if self.expected is not None:
            for name, inputs, outputs in (
                ("base", self.base_input, self.expected.base),
                ("plus", self.plus_input, self.expected.plus),
            ):
                if len(inputs) != len(outputs):
                    raise ValueError(f"there are {len(inputs)} {name} inputs and {len(outputs)} outputs")
        return self

    def inputs(self, plus: bool) -> list[list[Any]]:
        """Return the plus or the base inputs."""
        return self.plus_input if plus else self.base_input

    def program(self, code: str) -> str:
        """Return the whole program: the code after the prompt, unless it begins with the prompt."""
        if code.startswith(self.prompt):
            return code
        return self.prompt + ("" if self.prompt.endswith("\n") else "\n") + code


@dataclass(frozen=True, slots=True)
class Reference:
    """Outputs of the reference, and its seconds of processor time for each input; 0.0 if it was not run."""

    outputs: list[Any]
    seconds: list[float]


async def run_reference(problem: Problem, name: str, plus: bool, sandbox: Sandbox, limits: Limits) -> Reference:
    """Run the reference of a problem on its base or its plus inputs.

    Raises:
        DataError: If the reference fails.
        SandboxError: If the sandbox failed.
    """
    reference = Reference([], [])
    async with Functions(sandbox, limits) as functions:
        source = problem.prompt + (problem.canonical_solution or "")
        called = await functions.load(source, problem.entry_point, False, input_form(name))
        for arguments in problem.inputs(plus):
            if not called.failed:
                called = await functions.call(json.dumps(arguments))
            if called.failed:
                raise DataError(f"the reference of {name} fails: {called.error or called.limit}")
            reference.outputs.append(called.value)
            reference.seconds.append(called.cpu_seconds)
    return reference
