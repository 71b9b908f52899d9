"""EvalPlus: functions of HumanEval+ or MBPP+, compared with a reference on many inputs (NeMo Gym's `evalplus`)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Literal

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import LocalPath, Seconds
from gym_llm.envs.evalplus.input_forms import input_form
from gym_llm.envs.evalplus.problems import Problem, Reference, run_reference
from gym_llm.errors import DataError
from gym_llm.grading.extraction import last_block_after, python_code
from gym_llm.grading.problem_files import ProblemMetadata, read_problems
from gym_llm.grading.program_output import close_values
from gym_llm.sandbox import Sandbox
from gym_llm.sandbox.functions import Functions
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.types import Row

_FLOATS = 1e-6
_RELATIVE = 1e-7
_REFERENCE_SECONDS = 60.0
_OUTPUT_BYTES = 2 << 20

Status = Literal["pass", "fail", "timeout"]


class VerifierMetadata(ProblemMetadata[Problem]):
    """The problem or its id."""


class EvalPlus(SandboxedEnv):
    """Complete a function; 1.0 if it returns the same as the reference for all base and plus inputs.

    Details: `base_status`, `plus_status` (`pass`, `fail`, `timeout`), `is_correct`, `is_correct_plus`,
    `extracted_model_code`, `metadata` (`base_details`, `plus_details`: 1 or 0 for each input that was run).

    Args:
        evalplus_data: A file of the evalplus package with the problems that rows name.
        min_time_limit: Shortest time limit of a call, in seconds of processor time.
        gt_time_limit_factor: Time limit of a call as a multiple of the reference's time, if that is longer.
        **kwargs: See `SandboxedEnv`.

    Raises:
        DataError: If the file cannot be read.
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    accepted_findings = {"all options": "a block that is neither the program nor the function takes nothing back"}

    class Task(BaseTask):
        """The problem."""

        verifier_metadata: VerifierMetadata

    class Config(SandboxedEnv.Config):
        """The problems and the time limits."""

        evalplus_data: LocalPath | None = None
        min_time_limit: Seconds = 1.0
        gt_time_limit_factor: Seconds = 4.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._problems = read_problems(self.config.evalplus_data, Problem)

    def oracle(self, task: Task) -> str | None:
        """Return the reference, if the problem has one."""
        problem = task.verifier_metadata.problem_in(self._problems)
        if problem is None or problem.canonical_solution is None:
            return None
        return f"```python\n{problem.prompt}{problem.canonical_solution}```"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Call the answer's function with every input, and compare the results."""
        metadata = task.verifier_metadata
        problem = metadata.problem_in(self._problems)
        code = _code(episode.text, problem, conform=self.conform is not None)
        details: dict[str, Any] = {"extracted_model_code": code, "is_correct": False, "is_correct_plus": False}
        if problem is None:
            error = f"{metadata.task_id!r} is missing in `evalplus_data`, and the row has no `problem`"
            if self.conform is None:
                raise DataError(error)
            return Verdict(0.0, {**details, "metadata": {"error": error}})
        if not code:
            return Verdict(0.0, {**details, "metadata": {"error": "the answer has no block of code"}})
        sandbox = await self.started_sandbox()
        base, base_details = await self._check(sandbox, metadata.task_id or "", problem, code, plus=False)
        plus, plus_details = await self._check(sandbox, metadata.task_id or "", problem, code, plus=True)
        details |= {
            "base_status": base,
            "plus_status": plus,
            "is_correct": base == "pass",
            "is_correct_plus": base == plus == "pass",
            "metadata": {"base_details": base_details, "plus_details": plus_details},
        }
        return Verdict(float(details["is_correct_plus"]), details)

    async def _reference(self, sandbox: Sandbox, name: str, problem: Problem, plus: bool) -> Reference:
        if problem.expected is not None:
            outputs = problem.expected.plus if plus else problem.expected.base
            return Reference(outputs, [0.0] * len(outputs))
        key = ["evalplus reference", name, plus, problem.prompt, problem.canonical_solution]
        limits = self.limits(_REFERENCE_SECONDS, _OUTPUT_BYTES)
        reference: Reference = await self.shared(
            sha256(json.dumps(key).encode()).hexdigest(), lambda: run_reference(problem, name, plus, sandbox, limits)
        )
        return reference

    async def _check(
        self, sandbox: Sandbox, name: str, problem: Problem, code: str, *, plus: bool
    ) -> tuple[Status, list[int]]:
        inputs = problem.inputs(plus)
        reference = await self._reference(sandbox, name, problem, plus)
        details: list[int] = []
        if not inputs:
            return "pass", details
        async with Functions(sandbox, self.limits(self.config.min_time_limit, _OUTPUT_BYTES)) as functions:
            called = await functions.load(problem.program(code), problem.entry_point, False, input_form(name))
            if called.failed:
                return ("timeout" if called.out_of_time else "fail"), [0]
            for arguments, expected, seconds in zip(inputs, reference.outputs, reference.seconds, strict=True):
                limit = max(self.config.min_time_limit, self.config.gt_time_limit_factor * seconds)
                called = await functions.call(json.dumps(arguments), cpu_seconds=limit)
                right = not called.failed and close_values(
                    called.value, expected, rel_tol=_RELATIVE, abs_tol=problem.atol or _FLOATS
                )
                details.append(int(right))
                if called.ended:
                    break
        return ("timeout" if called.out_of_time else "pass" if all(details) else "fail"), details


def _code(text: str, problem: Problem | None, *, conform: bool) -> str:
    if conform:
        return (last_block_after(text.replace("\r", "")) or "").strip()
    return python_code(text, problem.entry_point if problem else None) or ""
