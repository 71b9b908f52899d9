"""Runs a program on its tests and compares outside what comes out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gym_llm.grading.program_output import close_values, line_difference, read_json, shortened
from gym_llm.sandbox import Limits, RunResult, Sandbox
from gym_llm.sandbox.functions import Called, Functions
from gym_llm.sandbox.run_tests import until_failure

WRONG, TIME, ERROR, UNKNOWN = -2, -3, -4, -1
_WRAPPED_CELL = Path(__file__).with_name("wrapped_cell.py")
_MOST_WITHOUT_THREAD = 100_000  # characters: 10 ms at the worst
_RELATIVE, _ABSOLUTE = 1e-5, 1e-8  # numpy's `allclose`

Results: TypeAlias = tuple[list[bool | int], dict[str, Any] | None]
"""The result of each test, and details of the failure; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Tests:
    """Inputs and expected outputs; text of a program, or, where a function is named, JSON."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    function: str | None = None


@dataclass(frozen=True, slots=True)
class _Failure:
    code: bool | int
    message: str
    details: dict[str, Any]


async def run_script(sandbox: Sandbox, code: str, tests: Tests, limits: Limits, at_a_time: int) -> Results:
    """Run the program as a file, once per test, with the input as its standard input."""

    async def test(number: int) -> _Failure | None:
        run = await sandbox.python(code, stdin=tests.inputs[number].encode("utf-8", "replace"), limits=limits)
        return _failure_of(run) or await _wrong_lines(run.text, tests.outputs[number])

    return _results(await _failures(test, tests, at_a_time), tests, shortened)


async def run_functions(sandbox: Sandbox, code: str, tests: Tests, limits: Limits) -> Results:
    """Load the program once, and call its function, or the method of `Solution`, once per test."""
    async with Functions(sandbox, limits) as functions:
        loaded = await functions.load(code, tests.function, "class Solution" in code)

        async def test(number: int) -> _Failure | None:
            called = loaded
            if not loaded.failed:
                called = await functions.call(f"[{','.join(tests.inputs[number].split(chr(10)))}]")
            return _failure_of_call(called) or _wrong_value(called.value, read_json(tests.outputs[number]))

        return _results(await _failures(test, tests), tests, _shown_arguments)


async def run_wrapped(sandbox: Sandbox, code: str, tests: Tests, limits: Limits) -> Results:
    """Run the program as LiveCodeBench's harness does: one process for all tests."""
    async with Functions(sandbox, limits, _WRAPPED_CELL) as functions:
        loaded = await functions.load(code, tests.function)
        if loaded.ended and loaded.limit is None:
            return [UNKNOWN] * len(tests.inputs), None
        if loaded.failed:
            message = "" if loaded.ended else loaded.error
            return [ERROR], {"error_code": ERROR, "error_message": f"Error during testing: {message}"}

        async def test(number: int) -> _Failure | None:
            called = await functions.call(tests.inputs[number])
            if called.ended and called.limit is None:
                return _Failure(UNKNOWN, "", {})
            if called.limit == "output":
                return _Failure(WRONG, "Wrong answer: mismatched output length", {"output": ""})
            if failure := _failure_of_call(called):
                return failure
            if tests.function is not None:
                return _wrong_value_upstream(called.value, read_json(tests.outputs[number]))
            return await _wrong_lines(called.value if isinstance(called.value, str) else "", tests.outputs[number])

        failures = await _failures(test, tests)
    if failures and failures[-1] is not None and failures[-1].code == UNKNOWN:
        return [UNKNOWN] * len(tests.inputs), None
    return _results(failures, tests, shortened if tests.function is None else _shown_arguments)


async def _failures(
    test: Callable[[int], Awaitable[_Failure | None]], tests: Tests, at_a_time: int = 1
) -> list[_Failure | None]:
    return await until_failure(test, len(tests.inputs), lambda failure: failure is not None, at_a_time=at_a_time)


def _results(failures: list[_Failure | None], tests: Tests, show: Callable[[str], str]) -> Results:
    results: list[bool | int] = [True if failure is None else failure.code for failure in failures]
    if not failures or (failure := failures[-1]) is None:
        return results, {}
    return results, {
        "error_code": WRONG if failure.code is False else failure.code,
        "error_message": failure.message,
        "inputs": show(tests.inputs[len(failures) - 1]),
        "expected": shortened(tests.outputs[len(failures) - 1]),
        **failure.details,
    }


def _shown_arguments(text: str) -> str:
    return shortened([read_json(line) for line in text.split("\n")])


def _failure_of(run: RunResult) -> _Failure | None:
    if run.limit in ("cpu", "wall"):
        return _Failure(TIME, "Time Limit Exceeded", {})
    if not run.ok:
        return _Failure(ERROR, "Runtime Error", {"error": shortened(run.error or "")})
    return None


def _failure_of_call(called: Called) -> _Failure | None:
    if not called.failed:
        return None
    if called.out_of_time:
        return _Failure(TIME, "Time Limit Exceeded", {})
    return _Failure(ERROR, "Runtime Error", {"error": shortened(called.error or "")})


async def _wrong_lines(output: str, expected: str) -> _Failure | None:
    if len(output) <= _MOST_WITHOUT_THREAD:
        message = line_difference(output, expected)
    else:
        message = await asyncio.to_thread(line_difference, output, expected)
    return None if message is None else _Failure(WRONG, message, {"output": shortened(output)})


def _wrong_value(value: Any, expected: Any) -> _Failure | None:
    if close_values(value, expected, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        return None
    return _Failure(WRONG, "Wrong Answer", {"output": shortened(value)})


def _wrong_value_upstream(value: Any, expected: Any) -> _Failure | None:
    if close_values(value, expected):
        return None
    try:
        value_number, number = float(value), float(expected)
        if math.isfinite(number) and abs(value_number - number) <= _ABSOLUTE + _RELATIVE * abs(number):
            return None
    except (TypeError, ValueError, OverflowError):
        pass  # no numbers
    return _Failure(False, "Wrong Answer", {"output": shortened(value)})
