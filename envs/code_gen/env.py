"""CodeGen: a program that has to pass unit tests (NeMo Gym's `code_gen`, LiveCodeBench's rows)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import Reward, Seconds
from gym_llm.envs.code_gen.runners import UnitTests, run_functions, run_script, run_wrapped
from gym_llm.errors import DataError
from gym_llm.grading.extraction import lines_between_last_marks, python_code
from gym_llm.sandbox.sandboxed_env import SandboxedEnv

_TAGS = ("<think>", "</think>")


class VerifierMetadata(BaseModel):
    """The tests of a row, their difficulty and a solution."""

    model_config = ConfigDict(extra="allow", frozen=True)

    unit_tests: UnitTests
    difficulty: str | None = None
    solution: str | None = None


class CodeGen(SandboxedEnv):
    """Write a program or a function; 1.0 if it passes every test.

    Details: `extracted_model_code`, `result`, `metadata`, `reasoning_format_violation_rate`, `difficulty`. `result` has
    an entry for each test up to the first failure: True, -2 (wrong), -3 (timeout), -4 (error) or -1 (unknown).
    `metadata` describes the failure.

    Args:
        runner: `"script"` runs a program as a file, once per test. `"wrapped"` runs it as LiveCodeBench does, see the
            README. None stands for `"script"`, or for `"wrapped"` with `conform`.
        unit_test_timeout_secs: Seconds of processor time for each test.
        reasoning_format_penalty: The reward if the answer has thinking tags, or the reasoning has one twice.
        **kwargs: See `SandboxedEnv`.
    """

    reverify_mode = "stateless"
    accepted_findings = {"all options": "a block that is neither the program nor the function takes nothing back"}

    class Task(BaseTask):
        """The tests."""

        verifier_metadata: VerifierMetadata

    class Config(SandboxedEnv.Config):
        """The runner, its time limit and the penalty for a wrong format."""

        runner: Literal["script", "wrapped"] | None = None
        unit_test_timeout_secs: Seconds = 10.0
        reasoning_format_penalty: Reward = 0.0

    config: Config

    def oracle(self, task: Task) -> str | None:
        """Return the row's solution, if it has one."""
        solution = task.verifier_metadata.solution
        return None if solution is None else f"```python\n{solution}```"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Extract the code and run it on the tests."""
        text, tests = episode.text, task.verifier_metadata.unit_tests
        code = lines_between_last_marks(text) if self.conform else python_code(text, tests.fn_name)
        details: dict[str, Any] = {"extracted_model_code": code or ""}
        if task.verifier_metadata.difficulty is not None:
            details["difficulty"] = task.verifier_metadata.difficulty
        if not text.strip() or not code:
            return Verdict(0.0, {**details, "error": "there is no block of code in the answer"})
        if not tests.inputs and not self.conform:
            raise DataError("the row has no unit tests")
        limits = self.limits(self.config.unit_test_timeout_secs, max(map(len, tests.outputs), default=0))
        sandbox = await self.started_sandbox()
        if (self.config.runner or ("wrapped" if self.conform else "script")) == "wrapped":
            results, metadata = await run_wrapped(sandbox, code, tests, limits, conform=self.conform is not None)
        elif tests.fn_name is not None:
            results, metadata = await run_functions(sandbox, code, tests, limits)
        else:
            results, metadata = await run_script(sandbox, code, tests, limits, self.config.num_processes)
        if metadata is not None:
            details["metadata"] = metadata
        doubled = _breaks_format(text, episode.reasoning)
        passed = all(result is True for result in results)
        return Verdict(
            self.config.reasoning_format_penalty if doubled else float(passed),
            {**details, "result": results, "reasoning_format_violation_rate": float(doubled)},
        )


def _breaks_format(text: str, reasoning: str) -> bool:
    return any(tag in text or reasoning.count(tag) > 1 for tag in _TAGS)
