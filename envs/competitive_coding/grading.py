"""Grade a program: compile it, run it on tests, check its outputs and add up its scores."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gym_llm.envs.competitive_coding.problems import Checker, Problem, Subtask, Test
from gym_llm.errors import DataError
from gym_llm.grading.extraction import fences, python_code
from gym_llm.sandbox.languages import Compiled, CompileError, Compiler, language
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.run_tests import until_failure
from gym_llm.sandbox.sandbox import RunResult
from gym_llm.tokens.parsers.thinking import without_cut_thought

CHECKER_LIMITS = Limits(cpu_seconds=30, wall_seconds=30, memory_bytes=2 << 30, disk_bytes=256 << 20)
_ACCEPTED, _REJECTED, _POINTS = 0, (1, 2, 4, 8), 7  # testlib's exit codes; 3 is the checker's own failure
_POINTS_SAID = re.compile(rb"\s*(?:points\s+|partially correct\s*\(?)?([-+\d.eE]+)")
_LARGE = 1 << 20
_PROGRAM = re.compile(r"\bmain\b|#[ \t]*include\b|\binput\b|\bstdin\b|\bopen\(")


@dataclass(frozen=True, slots=True)
class Graded:
    """The result of a test: its score, 0 to 1, and its status (`ok`, `wrong`, `partial`, or the program's end)."""

    score: float
    status: str


def find_program(text: str, name: str, *, whole: bool) -> tuple[str, str] | None:
    r"""Return the language and the code of the last closed block that is a program, in the language or else bare.

    An answer without blocks is a program if it has a `main`.

    Args:
        text: The answer.
        name: The language. With "auto" the block's tag decides between C++ and Python; a bare block is C++.
        whole: Whether to take the whole text if no block has the tag, as NeMo Gym does.

    >>> find_program("```py\nprint(1)\n```", "auto", whole=False), find_program("Hello", "auto", whole=False)
    (('python', 'print(1)'), None)
    """
    wanted = ("cpp", "python") if name == "auto" else (name,)
    names = {alias: one for one in wanted for alias in (one, *language(one).aliases)}
    text = text if whole else without_cut_thought(text)
    closed = [fence for fence in fences(text) if fence.closed]
    named = [(names[fence.language], fence.body) for fence in closed if fence.language in names]
    if whole:
        return named[-1] if named else (wanted[0], text)
    blocks = named or [(wanted[0], fence.body) for fence in closed if not fence.language]
    programs = [block for block in blocks if _PROGRAM.search(block[1])] or blocks
    if programs and programs[-1][0] == "python":
        return "python", python_code(text) or ""
    if programs:
        return programs[-1]
    return (wanted[0], text) if "```" not in text and "main" in text else None


def preamble(code: str, header: str | None) -> str:
    """Return the lines that C++ code lacks: the standard headers, the problem's header and the namespace."""
    lines = [] if "bits/stdc++.h" in code else ["#include <bits/stdc++.h>"]
    if header is not None and header not in code:
        lines.append(f'#include "{header}"')
    if "using namespace std" not in code and "std::" not in code:
        lines.append("using namespace std;")
    return "\n".join([*lines, ""]) if lines else ""


class Grader:
    """A grader of one program.

    Args:
        problem: The problem.
        problem_id: Its id, which names its header and its own program among the grader files.
        limits: The limits of a run, apart from those of the problem.
        at_a_time: The maximum number of concurrent tests.

    Attributes:
        graded: The results of the tests that ran, by name.
    """

    def __init__(self, problem: Problem, problem_id: str, limits: Limits, *, at_a_time: int) -> None:
        self.graded: dict[str, Graded] = {}
        self._problem = problem
        self._id = problem_id
        self._own_files = (f"{problem_id}.cpp", f"{problem_id}.cc", "manager.cpp")
        self._at_a_time = at_a_time
        memory = limits.memory_bytes if problem.mebibytes is None else problem.mebibytes << 20
        self._limits = replace(limits, memory_bytes=memory)

    async def compile(self, compiler: Compiler, name: str, code: str) -> CompileError | None:
        """Compile the model's program with the problem's graders, and return the error, or None."""
        self._compiler = compiler
        files = {file: data for file, data in self._problem.graders.items() if file not in self._own_files}
        sources, arguments = [code], []
        if name == "cpp":
            arguments = ["-DEVAL", *(file for file in files if file.endswith((".cpp", ".cc")))]
            header = next((file for file in files if file in (f"{self._id}.h", f"{self._id}.hpp")), None)
            before = preamble(code, header) if self._problem.task_type == "Batch" else ""
            sources = self._sources(code, before + code)
        for source in sources:
            compiled = await compiler.compile(name, source, files=files, arguments=arguments)
            if isinstance(compiled, Compiled):
                self._program = compiled
                return self._warnings(compiled)
        assert isinstance(compiled, CompileError)
        return compiled

    def _sources(self, code: str, whole: str) -> list[str]:
        return list(dict.fromkeys([code, whole]))

    def _warnings(self, compiled: Compiled) -> CompileError | None:
        return None

    async def compile_checker(self, compiler: Compiler, checker: Checker) -> None:
        """Compile the problem's checker.

        Raises:
            DataError: If the checker cannot be compiled.
        """
        files = {name: text.encode("utf-8", "replace") for name, text in checker.files.items()}
        compiled = await compiler.compile(checker.language, checker.source, files=files)
        if isinstance(compiled, CompileError):
            raise DataError(f"The checker of {self._id} cannot be compiled: {compiled.output[:500]}")
        self._checker = checker
        self._compiled_checker = compiler, compiled

    async def grade(self, names: Sequence[str], *, every_test: bool) -> dict[str, float]:
        """Return the scores of subtasks.

        Args:
            names: The subtasks.
            every_test: Whether to run also the tests that cannot change a score.

        Raises:
            DataError: If the checker fails.
            SandboxError: If the sandbox fails.
        """
        scores = {}
        for name in names:
            subtask = self._problem.scored[name]
            left = [test for test in dict.fromkeys(subtask.test_names) if test not in self.graded]
            fails = self._fails if subtask.aggregation == "min" and not every_test else lambda _: False
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
        if len(output) > _LARGE:  # too slow for the event loop
            same = await asyncio.to_thread(same_words, output, expected)
        else:
            same = same_words(output, expected)
        return Graded(float(same), "ok" if same else "wrong")

    async def _check(self, files: dict[str, bytes]) -> float:
        """Return the checker's score; 0 if the checker fails on this output but not on the right one."""
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
        return graded.score <= 0

    def _test_scores(self, subtask: Subtask) -> list[float]:
        tests = [self.graded.get(name) for name in subtask.test_names]
        return [0.0 if test is None else test.score for test in tests]

    def _score(self, subtask: Subtask) -> float:
        scores = self._test_scores(subtask)
        part = min(scores) if subtask.aggregation == "min" else sum(scores) / len(scores)
        return round(part * subtask.score, subtask.score_precision)

    def report(self, scores: dict[str, float]) -> dict[str, Any]:
        """Return the scores of the subtasks with the results of their tests."""
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


class NemoGrader(Grader):
    """A grader with the rules of NeMo Gym.

    It always adds the preamble and rejects warnings. `min` takes a partial score for 0, and `sum_tests` counts the
    tests above 0.
    """

    def _sources(self, code: str, whole: str) -> list[str]:
        return [whole]

    def _warnings(self, compiled: Compiled) -> CompileError | None:
        return CompileError(compiled.said) if compiled.said else None

    def _fails(self, graded: Graded) -> bool:
        return graded.score < 1

    def _score(self, subtask: Subtask) -> float:
        scores = self._test_scores(subtask)
        if subtask.aggregation == "sum_tests":
            return float(sum(score > 0 for score in scores))
        return 0.0 if min(scores) < 1 else super()._score(subtask)


def same_words(output: bytes, expected: bytes) -> bool:
    r"""Return whether two outputs have the same words in the same lines, apart from blank lines at the end.

    >>> same_words(b"1  2 \n3\n\n", b"1 2\n3"), same_words(b"1\n2", b"1 2")
    (True, False)
    """
    output, expected = output.rstrip(), expected.rstrip()
    if output.count(b"\n") != expected.count(b"\n"):
        return False
    pairs = zip(output.split(b"\n"), expected.split(b"\n"), strict=True)
    return all(line == wanted or line.split() == wanted.split() for line, wanted in pairs)


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
