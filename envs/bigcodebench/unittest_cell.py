"""Runs `unittest` tests: the text of a cell after `forked_cell`, never imported outside.

`unittest` is imported again after the program, and compared with itself after the tests.
"""

# ruff: noqa: F821
import ast as _ast
import sys as _sys
import types as _types


def _names(test: str) -> "set[str]":
    classes = [part for part in _ast.parse(test).body if isinstance(part, _ast.ClassDef) and part.name == "TestCases"]
    parts = [part for one in classes for part in one.body]
    return {part.name for part in parts if isinstance(part, _ast.FunctionDef) and part.name.startswith("test")}


def _outcome(module: "_types.ModuleType", name: str, test: bytes) -> "tuple[list[str], dict[str, str]]":
    for other in [other for other in _sys.modules if other.partition(".")[0] == "unittest"]:
        del _sys.modules[other]
    _wrap(module, name)  # type: ignore[name-defined]
    exec(compile(test, _TESTS, "exec", dont_inherit=True), module.__dict__)  # type: ignore[name-defined]
    return _results(module.TestCases)


def _results(cases: type) -> "tuple[list[str], dict[str, str]]":
    import unittest

    succeeded: list[str] = []
    failed: dict[str, str] = {}

    class Result(unittest.TestResult):
        """Collects the results of the tests by name; a missing test has not succeeded."""

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

    judges = (cases, Result, unittest.TestCase, unittest.TestResult, unittest.TestSuite)
    before = [_contents(judge) for judge in judges]
    unittest.defaultTestLoader.loadTestsFromTestCase(cases).run(Result())
    if [_contents(judge) for judge in judges] != before:
        failed["ALL"] = "what judges the tests was changed while they ran"
    return sorted(set(succeeded) - failed.keys()), failed


def _contents(kind: type) -> "dict[str, tuple[int, int]]":
    """Return the ids of a class's functions and of their code, by name."""
    return {
        name: (id(one), id(getattr(one, "__code__", None)))
        for name, one in vars(kind).items()
        if isinstance(one, (_types.FunctionType, classmethod, staticmethod))
    }
