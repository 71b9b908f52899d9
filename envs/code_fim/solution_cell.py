"""Runs the completed program and calls its functions: the text of a cell, after `values_cell`."""

# ruff: noqa: F821
import sys as _sys
import types as _types

_module = _types.ModuleType("solution")


def load(source: str) -> str:
    """Run a program, and return the names of its callables."""
    _sys.modules["solution"] = _module
    try:
        exec(compile(source, "<string>", "exec", dont_inherit=True), _module.__dict__)
    except BaseException as error:
        return _answer("error", f"{type(error).__name__}: {error}"[:2000])  # type: ignore[name-defined]
    names = [name for name, value in _module.__dict__.items() if callable(value) and not name.startswith("__")]
    return _answer("value", names)  # type: ignore[name-defined]


def call(request: str) -> str:
    """Call a function; the request is JSON of its name, positional arguments and named arguments."""
    try:
        name, arguments, named = map(_decoded, _json.loads(request))  # type: ignore[name-defined]
        value = getattr(_module, name)(*arguments, **named)
        return _answer("value", _encoded(value))  # type: ignore[name-defined]
    except BaseException as error:
        return _answer("error", f"{type(error).__name__}: {error}"[:2000])  # type: ignore[name-defined]
