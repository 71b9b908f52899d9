"""Runs a program, then its tests, in one forked process: the text of a cell before another; never imported outside.

The cell's process forks. The copy runs the program, then receives the tests and runs them. The parent never runs the
model's code: the copy cannot look into it, and only the parent returns the verdict. It accepts a report only if the
report begins with a token, comes alone and has every test that the parent counts itself.

The program and its tests share the copy, because tests patch modules and look into objects. So a program written
against this file can still forge a report, but usual tricks fail. A returned object must not define its own equality.
Functions and classes of the watched modules, with which tests compare, are restored after the program and its calls.

The other cell defines `_names(test)`, the names of the tests, and `_outcome(module, name, test)`: the names of
successful tests and the messages of the others.
"""

import builtins as _builtins
import functools as _functools
import importlib as _importlib
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
_SETUP, _PROGRAM, _TESTS = "__setup__.py", "__test__.py", "__tests__.py"
_watched: "list[_types.ModuleType]" = [_builtins]
_copy: "tuple[int, int, int, bytes] | None" = None  # its process id, the pipes to it and from it, its token


def load(source: str, name: str, setup: str = "", watched: "tuple[str, ...]" = ()) -> str:
    """Fork a copy that runs the setup and the program, after closing what the copy must not see.

    The value is empty, or says why the `SETUP` failed.
    """
    global _copy
    for module in watched:
        try:
            _watched.append(_importlib.import_module(module))
        except Exception:
            pass  # the test's import fails, too
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
        _run(setup, source, name, own - 1, own, token)
    _os.close(told)
    _os.close(reports)
    _copy = child, tells, reported, token
    failed = _reported()["failed"]
    return _json.dumps({"error": failed["ALL"]} if "ALL" in failed else {"value": failed})


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
    for name in _names(test).difference(succeeded, failed):  # type: ignore[name-defined]  # noqa: F821
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


def _run(setup: str, source: str, name: str, told: int, reports: int, token: bytes) -> None:
    """Run the setup, the program and the tests in the copy, and end it."""
    end, write, read, dumps = _os._exit, _os.write, _os.read, _json.dumps

    def report(succeeded: "list[str]", failed: "dict[str, str]") -> None:
        text = memoryview(token + dumps({"succeeded": succeeded, "failed": failed}).encode() + b"\n")
        while text:
            text = text[write(reports, text) :]

    try:
        module = _types.ModuleType("__test__")
        module.__file__ = _os.path.join(_os.getcwd(), _PROGRAM)
        _sys.modules["__test__"] = module
        try:
            exec(compile(setup, _SETUP, "exec", dont_inherit=True), module.__dict__)
        except BaseException as error:
            report([], {"SETUP": f"{type(error).__name__}: {error}"[:3000]})
            return
        before, finders, hooks = _judges(), list(_sys.meta_path), list(_sys.path_hooks)
        exec(compile(source, _PROGRAM, "exec", dont_inherit=True), module.__dict__)
        _restore(before)
        _sys.meta_path[:], _sys.path_hooks[:] = finders, hooks
        report([], {})
        parts = []
        while part := read(told, 1 << 16):
            parts.append(part)
        report(*_outcome(module, name, b"".join(parts)))  # type: ignore[name-defined]  # noqa: F821
    except BaseException as error:
        report([], {"ALL": f"{type(error).__name__}: {error}"[:3000]})
    finally:
        end(0)


def _judges() -> "list[tuple[dict[str, object], dict[str, object]]]":
    """Return the content of the watched modules, and a copy of all in it that can be called."""
    contents = [vars(module) for module in _watched]
    return [(content, {name: one for name, one in content.items() if callable(one)}) for content in contents]


def _restore(judges: "list[tuple[dict[str, object], dict[str, object]]]") -> None:
    for content, before in judges:
        content.update(before)


def _honest(function: "_types.FunctionType") -> "_types.FunctionType":
    """Wrap the function so that it replaces no judge, and its result does not judge; its globals stay the program's."""
    judges, restore, check = _judges, _restore, _check

    def checked(*arguments: object, **named: object) -> object:
        before = judges()
        try:
            value = function(*arguments, **named)
        finally:
            restore(before)
        check(value)
        return value

    code, closure = checked.__code__, checked.__closure__
    wrapped = _types.FunctionType(code, function.__globals__, function.__name__, None, closure)
    _functools.update_wrapper(wrapped, function)
    return wrapped


def _wrap(module: "_types.ModuleType", name: str) -> None:
    """Wrap the function of this name, if it is one."""
    function = module.__dict__.get(name)
    if isinstance(function, _types.FunctionType):
        module.__dict__[name] = _honest(function)
        _sys.setrecursionlimit(2 * _sys.getrecursionlimit())  # each of its own calls is two now


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
        return code.co_filename in (_SETUP, _TESTS) or _os.path.exists(code.co_filename)
    return isinstance(one, _types.WrapperDescriptorType) or type(one).__name__ == "MagicProxy"
