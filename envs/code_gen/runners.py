"""Run a program on its tests in the sandbox, and compare its outputs outside."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, model_validator

from gym_llm.grading.program_output import close_values, line_difference, read_json, shortened
from gym_llm.sandbox import Limits, Sandbox
from gym_llm.sandbox.functions import Functions
from gym_llm.sandbox.run_tests import until_failure

WRONG, TIME, ERROR, UNKNOWN = -2, -3, -4, -1
_WRAPPED_CELL = Path(__file__).with_name("wrapped_cell.py")
_MOST_WITHOUT_THREAD = 100_000  # characters: 10 ms at the worst
_MODULES = [
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json"),
]
_NAMES = "; ".join(
    [*(f"from {name} import *" for name in (*_MODULES, "builtins", "typing")), *(f"import {name}" for name in _MODULES)]
)
"""Imports that answers are written for: LiveCodeBench's starter code has `List[int]`, and its harness these names."""
_DEEPER = f"{_NAMES}; sys.setrecursionlimit(50000)\n"
_DEFAULT_NAMES = f"{_NAMES}; sys.set_int_max_str_digits(0)\n"
_FUTURE = re.compile(r"^from __future__ import [\w, ]+$", re.MULTILINE)
_PRINTED = 1e-6  # of printed floats, as in NeMo Gym since 0.7 and on most judges
_RELATIVE, _ABSOLUTE = 1e-5, 1e-8  # numpy's `allclose`

Results: TypeAlias = tuple[list[bool | int], dict[str, Any] | None]
"""The results of the tests and the details of the failure, or None if they are unknown."""


class UnitTests(BaseModel):
    """Inputs and expected outputs: texts for a program, JSON for a named function."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _unpacked(cls, tests: Any) -> Any:
        """Unpack the tests that NeMo Gym 0.7 writes as base64 of compressed JSON."""
        if not isinstance(tests, dict) or not isinstance(tests.get("packed"), str):
            return tests
        try:
            unpacked = json.loads(zlib.decompress(base64.b64decode(tests["packed"], validate=True)))
        except (ValueError, zlib.error) as error:
            raise ValueError(f"packed tests must be base64 of zlib of JSON: {error}") from None
        if not isinstance(unpacked, dict):
            raise ValueError("packed tests must be an object with inputs and outputs")
        return {**unpacked, **{name: value for name, value in tests.items() if name != "packed"}}

    inputs: list[str]
    outputs: list[str]
    fn_name: str | None = None

    @model_validator(mode="after")
    def _matching(self) -> UnitTests:
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"there are {len(self.inputs)} inputs and {len(self.outputs)} outputs")
        if self.fn_name is not None:
            lines = [line for text in self.inputs for line in text.split("\n")]
            for text in (*lines, *self.outputs):
                try:
                    read_json(text)
                except ValueError:
                    raise ValueError(f"every line of a function's test is JSON, not {text[:60]!r}") from None
        return self


@dataclass(frozen=True, slots=True)
class _Failure:
    code: bool | int
    message: str
    details: dict[str, Any]


async def run_script(sandbox: Sandbox, code: str, tests: UnitTests, limits: Limits, at_a_time: int) -> Results:
    """Run the program as a file, once per test, with the input on standard input."""

    program = "\n".join([*_FUTURE.findall(code), _DEFAULT_NAMES + _FUTURE.sub("", code)])

    async def test(number: int) -> _Failure | None:
        run = await sandbox.python(program, stdin=tests.inputs[number].encode("utf-8", "replace"), limits=limits)
        return _crash(not run.ok, run.limit, run.error) or await _wrong_lines(run.text, tests.outputs[number], _PRINTED)

    return _results(await _failures(test, tests, at_a_time), tests, shortened)


async def run_functions(sandbox: Sandbox, code: str, tests: UnitTests, limits: Limits) -> Results:
    """Load the program once, and call its function, or the method of its `Solution`, once per test."""
    async with Functions(sandbox, limits) as functions:
        loaded = await functions.load(code, tests.fn_name, "class Solution" in code, "", _DEFAULT_NAMES)

        async def test(number: int) -> _Failure | None:
            called = loaded
            if not loaded.failed:
                called = await functions.call(f"[{','.join(tests.inputs[number].split(chr(10)))}]")
            return _crash(called.failed, called.limit, called.error) or _wrong_value(
                called.value, read_json(tests.outputs[number])
            )

        return _results(await _failures(test, tests), tests, _shown_arguments)


async def run_wrapped(
    sandbox: Sandbox, code: str, tests: UnitTests, limits: Limits, *, conform: bool = False
) -> Results:
    """Run the program as LiveCodeBench's harness does: one process for all tests."""
    async with Functions(sandbox, limits, _WRAPPED_CELL) as functions:
        loaded = await functions.load(code, tests.fn_name, _DEEPER)
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
            if failure := _crash(called.failed, called.limit, called.error):
                return failure
            if tests.fn_name is not None:
                return _wrong_value_upstream(called.value, read_json(tests.outputs[number]))
            printed = called.value if isinstance(called.value, str) else ""
            return await _wrong_lines(printed, tests.outputs[number], _PRINTED, conform)

        failures = await _failures(test, tests)
    if failures and failures[-1] is not None and failures[-1].code == UNKNOWN:
        return [UNKNOWN] * len(tests.inputs), None
    return _results(failures, tests, shortened if tests.fn_name is None else _shown_arguments)


async def _failures(
    test: Callable[[int], Awaitable[_Failure | None]], tests: UnitTests, at_a_time: int = 1
) -> list[_Failure | None]:
    return await until_failure(test, len(tests.inputs), lambda failure: failure is not None, at_a_time=at_a_time)


def _results(failures: list[_Failure | None], tests: UnitTests, show: Callable[[str], str]) -> Results:
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


def _crash(failed: bool, limit: str | None, error: str | None) -> _Failure | None:
    if not failed:
        return None
    if limit in ("cpu", "wall"):
        return _Failure(TIME, "Time Limit Exceeded", {})
    return _Failure(ERROR, "Runtime Error", {"error": shortened(error or "")})


async def _wrong_lines(output: str, expected: str, tolerance: float, conform: bool = False) -> _Failure | None:
    if len(output) <= _MOST_WITHOUT_THREAD:
        message = line_difference(output, expected, tolerance, conform=conform)
    else:
        message = await asyncio.to_thread(line_difference, output, expected, tolerance, conform=conform)
    return None if message is None else _Failure(WRONG, message, {"output": shortened(output)})


def _wrong_value(value: Any, expected: Any) -> _Failure | None:
    if close_values(value, expected, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        return None
    return _Failure(WRONG, "Wrong Answer", {"output": shortened(value)})


def _wrong_value_upstream(value: Any, expected: Any) -> _Failure | None:
    pairs = [(value, expected)]
    if isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        pairs = list(zip(value, expected, strict=True))
    if close_values(value, expected) or all(_is_close_upstream(*pair) for pair in pairs):
        return None
    return _Failure(False, "Wrong Answer", {"output": shortened(value)})


def _is_close_upstream(value: Any, expected: Any) -> bool:
    """Whether values are equal, or numbers or texts of numbers, one of them a float, that are nearly so."""
    if close_values(value, expected):
        return True
    kinds = {type(value), type(expected)}
    if float not in kinds or not kinds <= {int, float, str}:
        return False
    try:
        number, wanted = float(value), float(expected)
    except (ValueError, OverflowError):
        return False
    return number == wanted or abs(number - wanted) <= _ABSOLUTE + _RELATIVE * abs(wanted) < math.inf
