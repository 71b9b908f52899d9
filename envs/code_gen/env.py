"""CodeGen: a program that has to pass unit tests (NeMo Gym's `code_gen`, LiveCodeBench's rows)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.config import Reward, Seconds
from gym_llm.envs.code_gen.runners import Tests, run_functions, run_script, run_wrapped
from gym_llm.errors import DataError
from gym_llm.grading.extraction import lines_between_last_marks, python_code
from gym_llm.grading.program_output import read_json
from gym_llm.sandbox.sandboxed_env import SandboxedEnv

_TAGS = ("<think>", "</think>")


class UnitTests(BaseModel):
    """What goes in, and what has to come out: text of a program, or JSON of a function."""

    model_config = ConfigDict(frozen=True)

    inputs: list[str]
    outputs: list[str]
    fn_name: str | None = None

    @model_validator(mode="after")
    def _fit(self) -> UnitTests:
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"there are {len(self.inputs)} inputs and {len(self.outputs)} outputs")
        if self.fn_name is not None:
            lines = [line for text in self.inputs for line in text.split("\n")]
            for text in (*lines, *self.outputs):
                try:
                    read_json(text)
                except ValueError:
                    raise ValueError(f"of a function's tests every line is JSON, not {text[:60]!r}") from None
        return self


class VerifierMetadata(BaseModel):
    """What a row has to say of its tests."""

    model_config = ConfigDict(extra="allow", frozen=True)

    unit_tests: UnitTests
    difficulty: str | None = None
    solution: str | None = None


class CodeGen(SandboxedEnv):
    """Write a program, or a function; 1.0 if it passes every test.

    Details: `extracted_model_code`, `result` (one entry per test up to the first that failed: True, or -2 wrong, -3 out
    of time, -4 failed, -1 nothing is known), `metadata` (of that failure), `reasoning_format_violation_rate`,
    `difficulty`.

    Args:
        runner: `"script"` runs a program as a file, once per test; `"wrapped"` as LiveCodeBench does, see the README.
            None: `"script"`, or `"wrapped"` for `conform="nemo"`.
        unit_test_timeout_secs: Seconds of processor time that a test may take.
        reasoning_format_penalty: The reward where tags of thinking are in the answer, or are doubled in the reasoning.
        **kwargs: See `SandboxedEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The tests."""

        verifier_metadata: VerifierMetadata

    class Config(SandboxedEnv.Config):
        """How the tests run, and what a breach of the format costs."""

        runner: Literal["script", "wrapped"] | None = None
        unit_test_timeout_secs: Seconds = 10.0
        reasoning_format_penalty: Reward = 0.0

    config: Config

    def oracle(self, task: Task) -> str | None:
        """The row's own solution, if it has one."""
        solution = task.verifier_metadata.solution
        return None if solution is None else f"```python\n{solution}```"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Take out the code, run it on the tests, and compare."""
        text = episode.text
        code = lines_between_last_marks(text) if self.conform else python_code(text)
        details: dict[str, Any] = {"extracted_model_code": code or ""}
        if task.verifier_metadata.difficulty is not None:
            details["difficulty"] = task.verifier_metadata.difficulty
        if not text.strip() or not code:
            return Verdict(0.0, {**details, "error": "there is no block of code in the answer"})
        unit_tests = task.verifier_metadata.unit_tests
        if not unit_tests.inputs and not self.conform:
            raise DataError("the row has no unit tests")
        tests = Tests(unit_tests.inputs, unit_tests.outputs, unit_tests.fn_name)
        limits = self.limits(self.config.unit_test_timeout_secs, max(map(len, tests.outputs), default=0))
        sandbox = await self.started_sandbox()
        if (self.config.runner or ("wrapped" if self.conform else "script")) == "wrapped":
            results, metadata = await run_wrapped(sandbox, code, tests, limits)
        elif tests.function is not None:
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
