"""BigCodeBench: a function that uses libraries, tested with `unittest` (NeMo Gym's `bigcodebench`)."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import Seconds
from gym_llm.grading.extraction import python_code_or_text
from gym_llm.sandbox.backends import mounts_of
from gym_llm.sandbox.functions import FORKED_CELL, Called, Functions
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import Sandbox
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.sandbox.shared import sandbox_for
from gym_llm.types import Row

_CELLS = (Path(__file__).with_name("tests_cell.py"),)
_ONE_PROCESS_CELLS = (FORKED_CELL, Path(__file__).with_name("unittest_cell.py"))
_INSIDE = Path(__file__).with_name("inside")
_MODULES = sorted(path for path in _INSIDE.glob("*.py") if path.stem != "__init__")
_LEAST_SECONDS = 0.01
_OWN_BYTES = 384 << 20  # for the two processes that the program cannot see: all pages that they share with it count


class VerifierMetadata(BaseModel):
    """The tests, and the lines before the model's code."""

    model_config = ConfigDict(extra="allow", frozen=True)

    task_id: str | None = None
    test: str
    entry_point: str
    code_prompt: str
    canonical_solution: str | None = None

    @field_validator("test")
    @classmethod
    def _has_tests(cls, test: str) -> str:
        try:
            classes = [part for part in ast.parse(test).body if isinstance(part, ast.ClassDef)]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"the test is not Python: {error}") from None
        parts = [part for one in classes if one.name == "TestCases" for part in one.body]
        if not any(isinstance(part, ast.FunctionDef) and part.name.startswith("test") for part in parts):
            raise ValueError("the test has no class `TestCases` with a method `test…`")
        return test


class BigCodeBench(SandboxedEnv):
    """Write a function that uses libraries; 1.0 if all of its tests succeed.

    Details: `status` (`pass`, `fail`, `timeout`, `empty_output`, `no_code_block`), `details` (the messages of failed
    tests, by name), `task_id`, `extracted_model_code`.

    Args:
        python: An interpreter with the packages of the tasks, e.g. of a virtual environment; None for this one.
        subprocess_timeout: Seconds of processor time for the program and all of its tests.
        **kwargs: See `SandboxedEnv`.
    """

    reverify_mode = "stateless"
    accepted_findings = {"all options": "a block that is neither the program nor the function takes nothing back"}

    class Task(BaseTask):
        """The tests."""

        verifier_metadata: VerifierMetadata

    class Config(SandboxedEnv.Config):
        """The interpreter and the time limit."""

        python: str | None = None
        subprocess_timeout: Seconds = 240.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._mounts = None if self.config.python is None else mounts_of(self.config.python)

    async def started_sandbox(self) -> Sandbox:
        """Return the sandbox with the requested interpreter."""
        return await sandbox_for(self, self.config.sandbox, mounts=self._mounts)

    def oracle(self, task: Task) -> str | None:
        """Return the reference solution, if the row has one."""
        metadata = task.verifier_metadata
        if metadata.canonical_solution is None:
            return None
        return f"```python\n{metadata.code_prompt}{metadata.canonical_solution}```"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Extract the code and run its tests."""
        metadata, text = task.verifier_metadata, episode.text
        code = python_code_or_text(text, metadata.entry_point, conform=self.conform is not None)
        details: dict[str, Any] = {"task_id": metadata.task_id or "", "extracted_model_code": code, "details": {}}
        if not text.strip() or not code:
            return Verdict(0.0, {**details, "status": "no_code_block" if text.strip() else "empty_output"})
        source = f"{metadata.code_prompt}\n    pass\n{code}"
        limits = self.limits(self.config.subprocess_timeout)
        called = await self._called(source, metadata, limits)
        if called.failed:
            status = "timeout" if called.out_of_time else "fail"
            return Verdict(0.0, {**details, "status": status, "details": {"ALL": called.error or status}})
        outcome = called.value if isinstance(called.value, dict) else {}
        failed, succeeded = outcome.get("failed"), outcome.get("succeeded")
        passed = failed == {} and isinstance(succeeded, list) and len(succeeded) > 0
        messages = {str(name): str(why) for name, why in failed.items()} if isinstance(failed, dict) else {}
        return Verdict(float(passed), {**details, "status": "pass" if passed else "fail", "details": messages})

    async def _called(self, source: str, metadata: VerifierMetadata, limits: Limits) -> Called:
        """Run the program and its tests: in two processes, or in one as NeMo Gym does."""
        together = self.conform is not None
        sandbox = await self.started_sandbox()
        cells, modules = (_ONE_PROCESS_CELLS, []) if together else (_CELLS, _MODULES)
        limits = limits if together else replace(limits, memory_bytes=limits.memory_bytes + _OWN_BYTES)
        async with Functions(sandbox, limits, *cells, modules=modules) as functions:
            prompt = [] if together else [metadata.code_prompt]
            called = await functions.load(source, metadata.entry_point, *prompt)
            if called.failed:
                return called
            left = max(_LEAST_SECONDS, self.config.subprocess_timeout - called.cpu_seconds)
            fields = {"test": metadata.test, "prompt": metadata.code_prompt, "name": metadata.entry_point}
            return await functions.call(metadata.test if together else json.dumps(fields), cpu_seconds=left)
