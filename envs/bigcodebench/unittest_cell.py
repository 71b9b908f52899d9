"""Runs a program and its `unittest` tests: the text of a cell, never imported outside.

The cell's process forks. The copy runs the program, then receives the tests and runs them. The parent never runs the
model's code: the copy cannot look into it, and only the parent returns the verdict. It accepts a report only if the
report begins with a token, comes alone and has every test that the parent counts itself.

The program and its tests share the copy, because tests patch modules and look into objects. So a program written
against this file can still forge a report, but usual tricks fail. `unittest` is imported again after the program, and
compared with itself after the tests. A returned object must not define its own equality.
"""

import ast as _ast
import builtins as _builtins
import functools as _functools
import json as _json
import os as _os
import signal as _signal
import sys as _sys
import types as _types

_DECIDING = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__class__"),
    *("__array_ufunc__", "__array_function__"),
)
_MOST_VALUES, _MOST_BYTES = 100_000, 1 << 22
_SET_DUMPABLE = 4
_OF_PYTHON = 1 << 9  # the flag of classes that Python code defines
_PROGRAM = "__test__.py"
_copy: "tuple[int, int, int, bytes] | None" = None  # its process id, the pipes to it and from it, its token


def _names(test: str) -> "set[str]":
    classes = [part for part in _ast.parse(test).body if isinstance(part, _ast.ClassDef) and part.name == "TestCases"]
    parts = [part for one in classes for part in one.body]
    return {part.name for part in parts if isinstance(part, _ast.FunctionDef) and part.name.startswith("test")}


def load(source: str, name: str) -> str:
    """Fork a copy that runs the program, after closing what the copy must not see."""
    global _copy
    _open_to_others(False)
    told, tells, reported, reports = *_os.pipe(), *_os.pipe()
    token = _os.urandom(16).hex().encode()
    child = _os.fork()
    if child == 0:
        own = 64 + _os.urandom(1)[0] // 2
        _os.dup2(reports, own, False)
        _os.dup2(told, own - 1, False)
        _os.closerange(3, own - 1)
        _os.closerange(own + 1, 256)
        _open_to_others(True)
        _run(source, name, own - 1, own, token)
    _os.close(told)
    _os.close(reports)
    _copy = child, tells, reported, token
    said = _reported()
    return _json.dumps({"error": said["failed"]["ALL"]} if said.get("failed") else {"value": None})


def call(test: str) -> str:
    """Have the copy run the tests, and return the names of successful tests and the messages of the others."""
    assert _copy is not None
    child, tells, _, _ = _copy
    text = memoryview(test.encode())
    try:
        while text:
            text = text[_os.write(tells, text) :]
    except BrokenPipeError:
        pass  # it has ended
    _os.close(tells)
    said = _reported()
    _os.kill(child, _signal.SIGKILL)
    _os.waitpid(child, 0)
    failed, succeeded = said["failed"], set(said["succeeded"])
    for name in _names(test).difference(succeeded, failed):
        failed[name] = "it was not run"
    return _json.dumps({"value": {"succeeded": sorted(succeeded - failed.keys()), "failed": failed}})


def _reported() -> "dict":  # type: ignore[type-arg]
    """Return the next line from the copy if it is a report."""
    assert _copy is not None
    _, _, reported, token = _copy
    said = b""
    while not said.endswith(b"\n") and len(said) < _MOST_BYTES:
        part = _os.read(reported, 1 << 16)
        if not part:
            break
        said += part
    try:
        report = _json.loads(said[len(token) :] if said.startswith(token) else b"")
        if said.count(b"\n") == 1 and isinstance(report["succeeded"], list) and isinstance(report["failed"], dict):
            return report  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError):
        pass
    return {
        "succeeded": [],
        "failed": {"ALL": "its process ended, or did not report its tests"},
    }


def _open_to_others(yes: bool) -> None:
    """Set whether processes of the same user may look into this one."""
    import ctypes

    ctypes.CDLL(None).prctl(_SET_DUMPABLE, int(yes), 0, 0, 0)


def _run(source: str, name: str, told: int, reports: int, token: bytes) -> None:
    """Run the program, then the tests, in the copy, and end it."""
    end, write, read, dumps = _os._exit, _os.write, _os.read, _json.dumps

    def report(succeeded: "list[str]", failed: "dict[str, str]") -> None:
        text = memoryview(token + dumps({"succeeded": succeeded, "failed": failed}).encode() + b"\n")
        while text:
            text = text[write(reports, text) :]

    try:
        module = _types.ModuleType("__test__")
        _sys.modules["__test__"] = module
        before, finders, hooks = dict(_builtins.__dict__), list(_sys.meta_path), list(_sys.path_hooks)
        exec(compile(source, _PROGRAM, "exec", dont_inherit=True), module.__dict__)
        _builtins.__dict__.update(before)
        _sys.meta_path[:], _sys.path_hooks[:] = finders, hooks
        for other in [other for other in _sys.modules if other.partition(".")[0] == "unittest"]:
            del _sys.modules[other]
        report([], {})
        parts = []
        while part := read(told, 1 << 16):
            parts.append(part)
        function = module.__dict__.get(name)
        if isinstance(function, _types.FunctionType):
            module.__dict__[name] = _honest(function)
            _sys.setrecursionlimit(2 * _sys.getrecursionlimit())  # each of its own calls is two now
        exec(compile(b"".join(parts), "__tests__.py", "exec", dont_inherit=True), module.__dict__)
        report(*_outcome(module.TestCases))
    except BaseException as error:
        report([], {"ALL": f"{type(error).__name__}: {error}"[:3000]})
    finally:
        end(0)


def _honest(function: "_types.FunctionType") -> object:
    """Wrap the function so that results with their own equality raise."""

    @_functools.wraps(function)
    def checked(*arguments: object, **named: object) -> object:
        value = function(*arguments, **named)
        _check(value)
        return value

    return checked


def _check(value: object) -> None:
    left: list[object] = [value]
    honest: set[int] = set()  # ids of classes, because classes may define their own equality, too
    seen = 0
    while left and seen < _MOST_VALUES:
        one = left.pop()
        seen += 1
        kind = type(one)
        if id(kind) not in honest:
            if any(map(_decides, kind.__mro__)):
                raise AssertionError("it returned an object that defines its own equality")
            honest.add(id(kind))
        if issubclass(kind, dict):
            left += dict.values(one)  # type: ignore[arg-type]
        elif issubclass(kind, (list, tuple, set, frozenset)):
            left += one  # type: ignore[arg-type]
        elif getattr(one, "dtype", None) == "object" and kind.__module__ in ("numpy", "pandas.core.series"):
            left += one.tolist()  # type: ignore[attr-defined]


def _decides(kind: type) -> bool:
    """Return whether a class outside libraries defines comparisons, or is the class of `mock.ANY`."""
    if (kind.__module__, kind.__name__) == ("unittest.mock", "_ANY"):
        return True
    is_python = bool(kind.__flags__ & _OF_PYTHON)
    of_library = getattr(_sys.modules.get(kind.__module__), kind.__name__, None) is kind
    if not is_python or (of_library and kind.__module__ != "__test__"):
        return False
    return any(name in vars(kind) and not _of_library(vars(kind)[name]) for name in _DECIDING)


def _of_library(one: object) -> bool:
    code = getattr(one, "__code__", None)
    if code is not None:
        return _os.path.exists(code.co_filename)
    return isinstance(one, _types.WrapperDescriptorType) or type(one).__name__ == "MagicProxy"


def _outcome(cases: type) -> "tuple[list[str], dict[str, str]]":
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
