"""Problems of HumanEval+ and MBPP+, and the outputs of their references."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

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


class References:
    """The outputs of references, each computed once: a resource that environments share."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, bool], asyncio.Future[Reference]] = {}

    async def __aenter__(self) -> References:
        return self

    async def __aexit__(self, *_: object) -> None:
        for run in self._runs.values():
            run.cancel()

    async def of(self, problem: Problem, name: str, plus: bool, sandbox: Sandbox, limits: Limits) -> Reference:
        """Return the reference's outputs for the base or the plus inputs of a problem.

        Raises:
            DataError: If the reference fails.
            SandboxError: If the sandbox failed.
        """
        inputs = problem.plus_input if plus else problem.base_input
        if problem.expected is not None:
            return Reference(problem.expected.plus if plus else problem.expected.base, [0.0] * len(inputs))
        key = (f"{name}\n{problem.prompt}{problem.canonical_solution}", plus)
        if key not in self._runs:
            self._runs[key] = asyncio.ensure_future(_run(problem, name, inputs, sandbox, limits))
        try:
            return await asyncio.shield(self._runs[key])
        except Exception:
            self._runs.pop(key, None)  # the next call tries again
            raise


async def _run(problem: Problem, name: str, inputs: list[list[Any]], sandbox: Sandbox, limits: Limits) -> Reference:
    reference = Reference([], [])
    async with Functions(sandbox, limits) as functions:
        called = await functions.load(problem.prompt + (problem.canonical_solution or ""), problem.entry_point, False)
        for arguments in inputs:
            if not called.failed:
                called = await functions.call(json.dumps(arguments))
            if called.failed:
                raise DataError(f"the reference of {name} fails: {called.error or called.limit}")
            reference.outputs.append(called.value)
            reference.seconds.append(called.cpu_seconds)
    return reference
