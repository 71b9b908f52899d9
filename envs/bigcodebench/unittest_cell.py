"""Runs a program and its `unittest` tests in one process: the text of a cell, never imported outside.

The program can change all that is here. What can be had is had before it runs: the names of the tests, and what the
verdict is made with; `unittest` itself is imported anew behind it.
"""

import ast as _ast
import builtins as _builtins
import json as _json
import sys as _sys
import types as _types

_dumps = _json.dumps
_modules: "dict[str, object]" = {}


def _names(test: str) -> "set[str]":
    classes = [part for part in _ast.parse(test).body if isinstance(part, _ast.ClassDef) and part.name == "TestCases"]
    parts = [part for one in classes for part in one.body]
    return {part.name for part in parts if isinstance(part, _ast.FunctionDef) and part.name.startswith("test")}


def load(source: str, test: str) -> str:
    """Run the program, then its tests: the names of those that succeeded, and what became of the others."""
    before = dict(_builtins.__dict__)
    module = _types.ModuleType("__test__")
    _sys.modules["__test__"] = module
    expected = _names(test)
    try:
        exec(compile(source, "__test__.py", "exec", dont_inherit=True), module.__dict__)
        _builtins.__dict__.update(before)
        for name in [name for name in _sys.modules if name.partition(".")[0] == "unittest"]:
            del _sys.modules[name]
        exec(compile(test, "__test__.py", "exec", dont_inherit=True), module.__dict__)
        return _outcome(module.TestCases, expected)
    except BaseException as error:
        return _dumps({"value": {"succeeded": [], "failed": {"ALL": f"{type(error).__name__}: {error}"[:3000]}}})


def _outcome(cases: type, expected: "set[str]") -> str:
    import unittest

    succeeded: list[str] = []
    failed: dict[str, str] = {}

    class Result(unittest.TestResult):
        """Keeps what each test came to by its name; one that is left out has not succeeded."""

        def addSuccess(self, test: unittest.TestCase) -> None:
            succeeded.append(test._testMethodName)

        def addError(self, test: unittest.TestCase, err: object) -> None:
            self._add(test, err)

        def addFailure(self, test: unittest.TestCase, err: object) -> None:
            self._add(test, err)

        def addSkip(self, test: unittest.TestCase, reason: str) -> None:
            failed[getattr(test, "_testMethodName", "ALL")] = f"skipped: {reason}"[:3000]

        def addSubTest(self, test: unittest.TestCase, subtest: object, err: object) -> None:
            if err is not None:
                self._add(test, err)

        def _add(self, test: unittest.TestCase, err: object) -> None:
            failed[getattr(test, "_testMethodName", "ALL")] = self._exc_info_to_string(err, test)[-3000:]  # type: ignore[attr-defined]

    unittest.defaultTestLoader.loadTestsFromTestCase(cases).run(Result())
    for name in expected.difference(succeeded, failed):
        failed[name] = "it was not run"
    return _dumps({"value": {"succeeded": sorted(set(succeeded) - failed.keys()), "failed": failed}})
