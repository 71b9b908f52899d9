"""Runs a program as LiveCodeBench does, inside a sandbox: the text of a cell, never imported outside.

A program that reads standard input becomes the body of a function after the imports. Each test calls it with
`sys.stdin`, `open` and `sys.stdout` replaced. The README lists the valid programs that this breaks.
"""

import ast as _ast
import builtins as _builtins
import io as _io
import json as _json
import os as _os
import shutil as _shutil
import subprocess as _subprocess
import sys as _sys
import types as _types

_OFF = {
    _builtins: "quit help",
    _os: "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace "
    "unlink fchmod fchown chmod chown chroot lchown getcwd chdir",
    _shutil: "rmtree move chown",
    _subprocess: "Popen",
}
_function = None
_reads_input = True


class _Input:
    """Standard input."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._file = _io.StringIO(text)
        self._lines = iter(text.split("\n"))
        self.buffer = _io.BytesIO(text.encode("utf-8", "replace"))

    def read(self, *_: object) -> str:
        return self._text

    def readline(self, *_: object) -> str:
        return next(self._lines)

    def readlines(self, *_: object) -> "list[str]":
        return self._text.split("\n")

    def __iter__(self) -> "_io.StringIO":
        return self._file

    def __next__(self) -> str:
        return next(self._file)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def _as_function(source: str, names: str) -> str:
    """Move the program's statements into a function; invalid programs stay unchanged."""
    try:
        body = _ast.parse(source).body
        last = body[-1] if body else None
        if isinstance(last, _ast.If) and _ast.unparse(last.test).strip() == "__name__ == '__main__'":
            body = [*body[:-1], *last.body]
        function = _ast.parse("def wrapped_function(): pass").body[0]
        assert isinstance(function, _ast.FunctionDef)
        function.body = [line for line in body if not isinstance(line, (_ast.Import, _ast.ImportFrom))]
        imports: list[_ast.stmt] = [line for line in body if isinstance(line, (_ast.Import, _ast.ImportFrom))]
        return f"{names}\n{_ast.unparse(_ast.Module(imports, []))}\n{_ast.unparse(function)}"
    except Exception:
        return source


def _answer(name: str, value: object) -> str:
    return _json.dumps({name: value}, ensure_ascii=False, default=repr)


def load(source: str, name: "str | None", names: str) -> str:
    """Run a program of functions, or wrap one that reads standard input. SystemExit ends the process.

    `names` are the imports before the program. LiveCodeBench's harness has imported numpy before it turns calls off.
    """
    global _function, _reads_input
    if "numpy" in source:
        try:
            import numpy  # noqa: F401
        except ImportError:
            pass  # the program's own import fails, too
    for module, turned_off in _OFF.items():
        for off in turned_off.split():
            setattr(module, off, None)
    if hasattr(_sys, "set_int_max_str_digits"):
        _sys.set_int_max_str_digits(1 << 20)
    _reads_input = name is None
    try:
        text = _as_function(source, names) if name is None else f"{names}\n\n{source}"
        module = _types.ModuleType("tmp_sol")
        exec(compile(text, "<string>", "exec", dont_inherit=True), module.__dict__)
        owner = module.Solution() if "class Solution" in text else module
        _function = getattr(owner, name or "wrapped_function", None)
        if _function is None:
            raise TypeError("cannot unpack non-iterable NoneType object")
    except Exception as error:
        return _answer("error", str(error)[:2000])
    return _answer("value", None)


def call(test: str) -> str:
    """Run a test on its input, and return the printed text or the returned value."""
    return _call_with_input(test) if _reads_input else _call_with_arguments(test)


def _call_with_arguments(test: str) -> str:
    try:
        return _answer("value", _function(*map(_json.loads, test.split("\n"))))  # type: ignore[misc]
    except Exception as error:
        return _answer("error", repr(error)[:2000])


def _call_with_input(test: str) -> str:
    before = _builtins.open, _sys.stdin, _sys.stdout
    printed = _io.TextIOWrapper(_io.BytesIO(), encoding="utf-8", newline="", write_through=True)
    printed.close = lambda: None  # type: ignore[method-assign]
    _builtins.open = lambda *_, **__: _io.StringIO(test)  # type: ignore[assignment]
    _sys.stdin, _sys.stdout = _Input(test), printed  # type: ignore[assignment]
    try:
        try:
            _function()  # type: ignore[misc]
        except SystemExit:
            pass
        printed.flush()
        return _answer("value", printed.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    except Exception as error:
        return _answer("error", repr(error)[:2000])
    finally:
        _builtins.open, _sys.stdin, _sys.stdout = before
