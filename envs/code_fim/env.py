"""CodeFIM: the missing middle of a program that has to pass a test (NeMo Gym's `code_fim`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import LocalPath, Seconds
from gym_llm.errors import DataError
from gym_llm.grading.extraction import after_thinking, last_block_after
from gym_llm.grading.problem_files import ProblemMetadata, read_problems
from gym_llm.grading.python_blocks import python_fragment
from gym_llm.sandbox import Sandbox
from gym_llm.sandbox.functions import Called, Functions
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.types import Row

_FOLDER = Path(__file__).parent
_SOLUTION = (_FOLDER / "values_cell.py", _FOLDER / "solution_cell.py")
_CHECK = (_FOLDER / "values_cell.py", _FOLDER / "check_cell.py")


class Problem(BaseModel):
    """A problem in the format of HumanEval-Infilling."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    prompt: str
    suffix: str
    test: str
    entry_point: str
    canonical_solution: str | None = None


class VerifierMetadata(ProblemMetadata[Problem]):
    """The problem or its id."""


class CodeFIM(SandboxedEnv):
    """Write the code between a prefix and a suffix; 1.0 if the program passes its test.

    Details: `completion` (the inserted code), `status` (`passed`, `timed out`, `failed: …`), `passed`.

    Args:
        fim_data: A file of HumanEval-Infilling's problems, which rows name.
        timeout: Seconds of processor time for the program and all of its calls.
        **kwargs: See `SandboxedEnv`.

    Raises:
        DataError: If the file cannot be read.
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The problem."""

        verifier_metadata: VerifierMetadata

    class Config(SandboxedEnv.Config):
        """The problems and the time limit."""

        fim_data: LocalPath | None = None
        timeout: Seconds = 3.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._problems = read_problems(self.config.fim_data, Problem)

    def oracle(self, task: Task) -> str | None:
        """Return the problem's completion, if it has one."""
        problem = task.verifier_metadata.problem_in(self._problems)
        if problem is None or problem.canonical_solution is None:
            return None
        return f"```python\n{problem.canonical_solution}\n```"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Extract the completion and test the program."""
        metadata = task.verifier_metadata
        problem = metadata.problem_in(self._problems)
        if problem is None:
            raise DataError(f"the task {metadata.task_id!r} is not in `fim_data`, and the row lacks a `problem`")
        status, completion = "failed: there is no block of code in the answer", ""
        conform, name = self.conform is not None, problem.entry_point
        for completion in completions(episode.text, problem.prompt, problem.suffix, conform=conform, entry_point=name):
            status = await self._check(await self.started_sandbox(), problem, completion)
            if status == "passed":
                break
        passed = status == "passed"
        return Verdict(float(passed), {"completion": completion, "status": status, "passed": passed})

    async def _check(self, sandbox: Sandbox, problem: Problem, completion: str) -> str:
        """Run the program in one process and its test in another, and pass the calls between them."""
        limits = self.limits(self.config.timeout)
        left = self.config.timeout
        async with Functions(sandbox, limits, *_SOLUTION) as program, Functions(sandbox, limits, *_CHECK) as check:
            called = await program.load(problem.prompt + completion + problem.suffix)
            if called.failed:
                return _status(called)
            names = [name for name in called.value or () if isinstance(name, str)]
            said = await check.load(problem.test, problem.entry_point, names)
            while True:
                if said.failed:  # because of a value from the program: the row's test is right
                    return _status(said)
                kind, *rest = said.value
                if kind != "call":
                    return "passed" if kind == "passed" else f"failed: {rest[0]}"
                left -= called.cpu_seconds
                if left <= 0:
                    return "timed out"
                called = await program.call(rest[0], cpu_seconds=left)
                if called.ended:
                    return _status(called)
                outcome = {"value": called.value} if called.error is None else {"error": called.error}
                said = await check.call(json.dumps(outcome, default=str))


def _status(called: Called) -> str:
    if called.out_of_time:
        return "timed out"
    return f"failed: {(called.error or '').partition(': ')[2] or called.error or called.limit}"


def completions(text: str, prefix: str, suffix: str, *, conform: bool, entry_point: str | None = None) -> list[str]:
    r"""Return the candidates for the code between prefix and suffix, the likeliest first.

    The pieces of prefix and suffix that the block repeats at its ends are cut off. The line break before the closing
    mark may belong to the code, so there are two candidates. In NeMo Gym it always does.

    >>> completions("```python\nx = a + b\n```", "x = a", "\n", conform=False)
    [' + b']
    >>> completions("```python\nreturn True\n```", "  ", "ue\n", conform=True)
    ['return Tr']
    """
    text = after_thinking(text)
    if conform:
        block = last_block_after(text)
        blocks = [] if block is None else [block.removeprefix("\n")]
    else:
        code = python_fragment(text, entry_point)
        blocks = [] if code is None else [code + "\n", code]
    return list(dict.fromkeys(_fitted(block, prefix, suffix) for block in blocks))


def _fitted(code: str, prefix: str, suffix: str) -> str:
    code = code[_overlap(prefix, code) :]
    return code[: len(code) - _overlap(code, suffix)]


def _overlap(left: str, right: str) -> int:
    """Return the length of the longest end of the left that begins the right and is more than blanks of one line."""
    for size in range(min(len(left), len(right)), 0, -1):
        piece = right[:size]
        if left.endswith(piece) and (piece.strip() or "\n" in piece):
            return size
    return 0
