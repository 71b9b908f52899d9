"""SciCodePile: functions of scientific programs, each with a test of its own (NeMo Gym's `scicodepile`)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import Seconds
from gym_llm.errors import DataError
from gym_llm.grading.extraction import python_code_or_text
from gym_llm.sandbox.backends import mounts_of
from gym_llm.sandbox.functions import FORKED_CELL, Called, Functions
from gym_llm.sandbox.sandbox import Sandbox
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.sandbox.shared import sandbox_for
from gym_llm.types import Row

_CELLS = (FORKED_CELL, Path(__file__).with_name("check_cell.py"))
_JUDGES = {"math", "operator"}
_LEAST_SECONDS = 0.01
_STATUS = {"entry_point": "entry_point_missing", "test": "error", "check": "fail"}


class VerifierMetadata(BaseModel):
    """The function's name, its test, and what is run before it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    test: str
    entry_point: str = Field(min_length=1)
    setup_code: str = ""
    task_id: str | None = None
    canonical_solution: str | None = None

    @field_validator("test", "setup_code")
    @classmethod
    def _is_python(cls, source: str) -> str:
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"the code is not Python: {error}") from None
        return source

    @field_validator("test")
    @classmethod
    def _has_a_check(cls, test: str) -> str:
        if not any(isinstance(part, ast.FunctionDef) and part.name == "check" for part in ast.parse(test).body):
            raise ValueError("the test must define check(candidate)")
        return test

    @property
    def watched(self) -> tuple[str, ...]:
        """The modules that the test imports: what it compares with comes from them."""
        names = set(_JUDGES)
        for node in ast.walk(ast.parse(self.test)):
            names |= {name.name for name in node.names} if isinstance(node, ast.Import) else set()
            names |= {node.module} if isinstance(node, ast.ImportFrom) and node.module and not node.level else set()
        return tuple(sorted(names | ({"numpy.testing"} if "numpy" in names else set())))


class SciCodePile(SandboxedEnv):
    """Write a function of a scientific program; 1.0 if its test succeeds.

    Details: `status` (`pass`, `fail`, `error`, `entry_point_missing`, `timeout`, `no_code_block`, `empty_output`),
    `details` (the failed part with its message), `task_id`, `extracted_model_code`.

    Args:
        python: An interpreter with the packages of the tasks, e.g. of a virtual environment; None for this one.
        subprocess_timeout: Seconds of processor time for the program and its test.
        **kwargs: See `SandboxedEnv`.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The test."""

        verifier_metadata: VerifierMetadata

    class Config(SandboxedEnv.Config):
        """The interpreter and the time limit."""

        python: str | None = None
        subprocess_timeout: Seconds = 120.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._mounts = None if self.config.python is None else mounts_of(self.config.python)

    async def started_sandbox(self) -> Sandbox:
        """Return the sandbox with the requested interpreter."""
        return await sandbox_for(self, self.config.sandbox, mounts=self._mounts)

    def oracle(self, task: Task) -> str | None:
        """Return the reference solution, if the row has one."""
        solution = task.verifier_metadata.canonical_solution
        return None if solution is None else f"```python\n{solution}\n```"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Extract the code and run the test."""
        metadata, text = task.verifier_metadata, episode.text
        code = python_code_or_text(text, metadata.entry_point, conform=self.conform is not None)
        details: dict[str, Any] = {"task_id": metadata.task_id or "", "extracted_model_code": code}
        if not code:
            return Verdict(0.0, {**details, "status": "no_code_block" if text.strip() else "empty_output"})
        called = await self._called(code, metadata)
        if called.failed:
            status = "timeout" if called.out_of_time else "error"
            return Verdict(0.0, {**details, "status": status, "details": {"program": called.error or status}})
        outcome = called.value if isinstance(called.value, dict) else {}
        failed = outcome.get("failed")
        passed = failed == {} and outcome.get("succeeded") == ["check"]
        part, why = next(iter(failed.items()), ("check", "")) if isinstance(failed, dict) else ("check", "")
        status = "pass" if passed else _STATUS.get(part, "error")
        return Verdict(float(passed), {**details, "status": status, "details": {} if passed else {part: str(why)}})

    async def _called(self, code: str, metadata: VerifierMetadata) -> Called:
        seconds = self.config.subprocess_timeout
        async with Functions(await self.started_sandbox(), self.limits(seconds), *_CELLS) as functions:
            called = await functions.load(code, metadata.entry_point, metadata.setup_code, metadata.watched)
            if called.failed:
                return called
            if isinstance(called.value, dict) and "SETUP" in called.value:
                raise DataError(f"setup_code must run, got {called.value['SETUP']}")
            return await functions.call(metadata.test, cpu_seconds=max(_LEAST_SECONDS, seconds - called.cpu_seconds))
