"""Grading a program: compiled, run on tests, checked, and its scores put together."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gym_llm.envs.competitive_coding.problems import Checker, Problem, Subtask, Test
from gym_llm.errors import DataError
from gym_llm.grading.extraction import fences
from gym_llm.sandbox.languages import Compiled, CompileError, Compiler, language
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.run_tests import until_failure
from gym_llm.sandbox.sandbox import RunResult

CHECKER_LIMITS = Limits(cpu_seconds=30, wall_seconds=30, memory_bytes=2 << 30, disk_bytes=256 << 20)
_ACCEPTED, _REJECTED, _POINTS = 0, (1, 2, 4, 8), 7  # testlib's exit codes; 3 is the checker's own failure
_POINTS_SAID = re.compile(rb"\s*(?:points\s+|partially correct\s*\(?)?([-+\d.eE]+)")
_LARGE = 1 << 20


@dataclass(frozen=True, slots=True)
class Graded:
    """What a test came to.

    Attributes:
        score: 0 to 1.
        status: `ok`, `wrong`, `partial`, or how the program ended.
    """

    score: float
    status: str


def find_program(text: str, name: str, *, whole: bool) -> tuple[str, str] | None:
    r"""The program in an answer, as (language, code): its last closed block in that language; else its last bare one.

    An answer without any block is the program if it has a `main`.

    Args:
        text: The answer.
        name: The language; "auto" for C++ or Python, as the block says, and C++ where it says nothing.
        whole: NeMo Gym's rule: the last block of C++, else all of the text.

    >>> find_program("```py\nprint(1)\n```", "auto", whole=False), find_program("Hello", "auto", whole=False)
    (('python', 'print(1)'), None)
    """
    wanted = ("cpp", "python") if name == "auto" else (name,)
    names = {alias: one for one in wanted for alias in (one, *language(one).aliases)}
    named = bare = None
    for fence in fences(text):
        if fence.closed and fence.language in names:
            named = names[fence.language], fence.body
        elif fence.closed and not fence.language:
            bare = wanted[0], fence.body
    if whole:
        return named or (wanted[0], text)
    return named or bare or ((wanted[0], text) if "```" not in text and "main" in text else None)


def preamble(code: str, header: str | None) -> str:
    """What contests put before C++ that lacks it: the standard headers, the problem's own, and the namespace."""
    lines = [] if "bits/stdc++.h" in code else ["#include <bits/stdc++.h>"]
    if header is not None and header not in code:
        lines.append(f'#include "{header}"')
    if "using namespace std" not in code and "std::" not in code:
        lines.append("using namespace std;")
    return "\n".join([*lines, ""]) if lines else ""


class Grader:
    """Grades one program.

    Args:
        problem: Its problem.
        problem_id: For messages, and for the names of its header and of the program among its graders.
        limits: Of a run, without those that the problem names.
        conform: Whether as NeMo Gym does: compiled with the preamble, a warning is an error, a test that is not wholly
            right is wrong for `min`, and right for `sum_tests`.
        at_a_time: The most tests that run at a time.

    Attributes:
        graded: What each test came to that was run.
    """

    def __init__(self, problem: Problem, problem_id: str, limits: Limits, *, conform: bool, at_a_time: int) -> None:
        self.graded: dict[str, Graded] = {}
        self._problem = problem
        self._id = problem_id
        self._own_files = (f"{problem_id}.cpp", f"{problem_id}.cc", "manager.cpp")
        self._conform = conform
        self._at_a_time = at_a_time
        memory = limits.memory_bytes if problem.mebibytes is None else problem.mebibytes << 20
        self._limits = replace(limits, memory_bytes=memory)

    async def compile(self, compiler: Compiler, name: str, code: str) -> CompileError | None:
        """Compile the model's program, with the problem's graders beside it; None if that can be done."""
        self._compiler = compiler
        files = {file: data for file, data in self._problem.graders.items() if file not in self._own_files}
        tries, arguments = [code], []
        if name == "cpp":
            arguments = ["-DEVAL", *(file for file in files if file.endswith((".cpp", ".cc")))]
            header = next((file for file in files if file in (f"{self._id}.h", f"{self._id}.hpp")), None)
            before = preamble(code, header) if self._problem.task_type == "Batch" else ""
            tries = [before + code] if self._conform else list(dict.fromkeys([code, before + code]))
        for source in tries:
            compiled = await compiler.compile(name, source, files=files, arguments=arguments)
            if isinstance(compiled, Compiled):
                self._program = compiled
                return CompileError(compiled.said) if self._conform and compiled.said else None
        assert isinstance(compiled, CompileError)
        return compiled

    async def compile_checker(self, compiler: Compiler, checker: Checker) -> None:
        """Compile the author's checker.

        Raises:
            DataError: If it cannot be.
        """
        files = {name: text.encode("utf-8", "replace") for name, text in checker.files.items()}
        compiled = await compiler.compile(checker.language, checker.source, files=files)
        if isinstance(compiled, CompileError):
            raise DataError(f"The checker of {self._id} cannot be compiled: {compiled.output[:500]}")
        self._checker = checker
        self._compiled_checker = compiler, compiled

    async def grade(self, names: Sequence[str], *, every_test: bool) -> dict[str, float]:
        """The scores of these subtasks.

        Args:
            names: The subtasks.
            every_test: Whether tests are run, too, that can change nothing.

        Raises:
            DataError: If the checker fails.
            SandboxError: If the sandbox fails.
        """
        scores = {}
        for name in names:
            subtask = self._problem.scored[name]
            left = [test for test in dict.fromkeys(subtask.test_names) if test not in self.graded]
            fails = self._fails if subtask.aggregation == "min" and not every_test else _never
            if not any(fails(self.graded[test]) for test in subtask.test_names if test in self.graded):
                await self._run(left, fails)
            scores[name] = self._score(subtask)
        return scores

    async def _run(self, names: list[str], fails: Callable[[Graded], bool]) -> None:
        tests = [self._problem.all_tests[name] for name in names]
        run = await until_failure(lambda n: self._test(tests[n]), len(tests), fails, at_a_time=self._at_a_time)
        self.graded.update(zip(names, run, strict=False))

    async def _test(self, test: Test) -> Graded:
        stdin, expected = test.input.encode("utf-8", "replace"), test.output.encode("utf-8", "replace")
        limits = replace(self._limits, output_bytes=max(_LARGE, 2 * len(expected)))
        result = await self._compiler.run(self._program, stdin=stdin, limits=limits)
        if not result.ok:
            return Graded(0.0, _ended(result))
        output = result.stdout
        if self._problem.own_checker is not None:
            score = await self._check({"input.txt": stdin, "output.txt": output, "answer.txt": expected})
            return Graded(score, "ok" if score >= 1 else "partial" if score > 0 else "wrong")
        if len(output) > _LARGE:  # this takes longer than an event loop should
            same = await asyncio.to_thread(same_words, output, expected)
        else:
            same = same_words(output, expected)
        return Graded(float(same), "ok" if same else "wrong")

    async def _check(self, files: dict[str, bytes]) -> float:
        """The checker's score; 0 if it has none for this output, but has one for the right answer."""
        score, why = await self._checked(files)
        if score is None and files["output.txt"] != files["answer.txt"]:
            right, why = await self._checked({**files, "output.txt": files["answer.txt"]})
            score = None if right is None else 0.0
        if score is None:
            raise DataError(f"The checker of {self._id} gave no verdict ({why}")
        return score

    async def _checked(self, files: dict[str, bytes]) -> tuple[float | None, str]:
        compiler, compiled = self._compiled_checker
        testlib = self._checker.protocol == "testlib"
        order = ("input.txt", "output.txt", "answer.txt") if testlib else ("input.txt", "answer.txt", "output.txt")
        result = await compiler.run(compiled, arguments=order, files=files, limits=CHECKER_LIMITS)
        score = None if result.limit is not None else _testlib_score(result) if testlib else _printed_score(result)
        said = (result.stderr or result.stdout)[:300].decode("utf-8", "replace")
        return score, f"{_ended(result)}): {said!r}"

    def _fails(self, graded: Graded) -> bool:
        return graded.score < 1 if self._conform else graded.score <= 0

    def _score(self, subtask: Subtask) -> float:
        tests = [self.graded.get(name) for name in subtask.test_names]
        scores = [0.0 if test is None else test.score for test in tests]
        if self._conform and subtask.aggregation == "sum_tests":
            return float(sum(score > 0 for score in scores))
        if self._conform and min(scores) < 1:
            return 0.0
        part = min(scores) if subtask.aggregation == "min" else sum(scores) / len(scores)
        return round(part * subtask.score, subtask.score_precision)

    def report(self, scores: dict[str, float]) -> dict[str, Any]:
        """What came of each subtask's tests, for the details."""
        return {
            name: {
                "score": score,
                "outputs": [self._line(test) for test in self._problem.scored[name].test_names if test in self.graded],
            }
            for name, score in scores.items()
        }

    def _line(self, name: str) -> dict[str, Any]:
        graded = self.graded[name]
        group = self._problem.all_tests[name].group or ""
        return {"test_name": name, "test_group": group, "score": graded.score, "status": graded.status}


def same_words(output: bytes, expected: bytes) -> bool:
    r"""Whether two outputs have the same words in the same lines, but for spaces, and for blank lines at the end.

    >>> same_words(b"1  2 \n3\n\n", b"1 2\n3"), same_words(b"1\n2", b"1 2")
    (True, False)
    """
    output, expected = output.rstrip(), expected.rstrip()
    if output.count(b"\n") != expected.count(b"\n"):
        return False
    pairs = zip(output.split(b"\n"), expected.split(b"\n"), strict=True)
    return all(line == wanted or line.split() == wanted.split() for line, wanted in pairs)


def _never(_: Graded) -> bool:
    return False


def _ended(result: RunResult) -> str:
    if result.limit is not None:
        return f"limit: {result.limit}"
    return f"signal {result.signal}" if result.signal is not None else f"exit code {result.exit_code}"


def _testlib_score(result: RunResult) -> float | None:
    if result.exit_code == _ACCEPTED:
        return 1.0
    if result.exit_code in _REJECTED:
        return 0.0
    return _part(result.stderr) if result.exit_code == _POINTS else None


def _printed_score(result: RunResult) -> float | None:
    return _part(result.stdout) if result.exit_code == 0 else None


def _part(said: bytes) -> float | None:
    found = _POINTS_SAID.match(said)
    try:
        value = float(found[1]) if found else math.nan
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
