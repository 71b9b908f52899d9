"""Runs a program and its `unittest` tests in two processes: the text of a cell, never imported outside.

The cell's process forks twice. One copy runs the program and knows no test; it is forked before the tests come. The
other copy runs the tests, and gets only data from the program's. The cell's process returns the verdict. The program
cannot look into the other two: they are closed to other processes, and their pipes are closed in its copy.
"""

import ast as _ast
import importlib as _importlib
import json as _json
import os as _os
import signal as _signal
import struct as _struct
import sys as _sys

_SET_DUMPABLE = 4
_MOST_BYTES = 1 << 24
_FIRST = 200  # of the descriptors that a copy keeps
_program = 0  # its process id
_line = (-1, -1)  # this end of the line


def _open_to_others(yes: bool) -> None:
    """Set whether processes of the same user may look into this one."""
    import ctypes

    ctypes.CDLL(None).prctl(_SET_DUMPABLE, int(yes), 0, 0, 0)


def _keep_only(*descriptors: int) -> "list[int]":
    kept = [_os.dup2(_os.dup(one), _FIRST + place, False) for place, one in enumerate(descriptors)]
    null = _os.open(_os.devnull, _os.O_RDONLY)
    _os.dup2(null, 0)
    _os.closerange(3, _FIRST)
    _os.closerange(_FIRST + len(kept), 1 << 16)
    return kept


def _import_all(prompt: str) -> None:
    """Import what the prompt imports: both copies have it then."""
    for node in _ast.walk(_ast.parse(prompt + "\n    pass\n")):
        names = [one.name for one in node.names] if isinstance(node, _ast.Import) else []
        names += [node.module] if isinstance(node, _ast.ImportFrom) and node.module and not node.level else []
        for name in names:
            try:
                _importlib.import_module(name)
            except Exception:
                pass  # the program's import fails, too


def load(source: str, name: str, prompt: str) -> str:
    """Fork a copy that runs the program, after closing what the copy must not see."""
    global _program, _line
    _sys.path[:] = [folder for folder in _sys.path if folder not in ("", ".")]  # nothing that a program writes
    try:
        _import_all(prompt)
    except (SyntaxError, ValueError):
        pass
    import program_side  # type: ignore[import-not-found]
    import test_side  # type: ignore[import-not-found]  # noqa: F401

    _open_to_others(False)
    to_it, from_it = _os.pipe(), _os.pipe()
    _program = _os.fork()
    if _program == 0:
        try:
            reading, writing = _keep_only(to_it[0], from_it[1])
            _open_to_others(True)
            _sys.path.insert(0, "")
            program_side.serve(source, reading, writing)
        finally:
            _os._exit(0)
    _os.close(to_it[0])
    _os.close(from_it[1])
    _line = from_it[0], to_it[1]
    try:
        size = _struct.unpack(">I", _bytes(4))[0]
        said = _json.loads(_bytes(min(size, 1 << 16)))
        if said.get("loaded") is True:
            return _json.dumps({"value": None})
        return _json.dumps({"error": str(said.get("why"))[:3000]})
    except (EOFError, ValueError, AttributeError):
        return _json.dumps({"error": "the program's process has ended"})


def _bytes(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = _os.read(_line[0], size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def call(argument: str) -> str:
    """Have another copy run the tests: the names of successful ones, and the messages of the others."""
    given = _json.loads(argument)
    reported, reports = _os.pipe()
    tester = _os.fork()
    if tester == 0:
        try:
            reading, writing, end = _keep_only(*_line, reports)
            import test_side

            try:
                succeeded, failed = test_side.run(given["test"], given["prompt"], given["name"], reading, writing)
            except BaseException as error:
                succeeded, failed = [], {"ALL": f"{type(error).__name__}: {error}"[:3000]}
            text = memoryview(_json.dumps({"succeeded": succeeded, "failed": failed}).encode())
            while text:
                text = text[_os.write(end, text) :]
        finally:
            _os._exit(0)
    _os.close(reports)
    said = b""
    while len(said) < _MOST_BYTES and (part := _os.read(reported, 1 << 16)):
        said += part
    for process in (tester, _program):
        _os.kill(process, _signal.SIGKILL)
        _os.waitpid(process, 0)
    try:
        report = _json.loads(said)
    except ValueError:
        report = {"succeeded": [], "failed": {"ALL": "the tests' process has ended"}}
    failed, succeeded = report["failed"], set(report["succeeded"])
    for name in _names(given["test"]).difference(succeeded, failed):
        failed[name] = "it was not run"
    return _json.dumps({"value": {"succeeded": sorted(succeeded - failed.keys()), "failed": failed}})


def _names(test: str) -> "set[str]":
    classes = [part for part in _ast.parse(test).body if isinstance(part, _ast.ClassDef) and part.name == "TestCases"]
    parts = [part for one in classes for part in one.body]
    return {part.name for part in parts if isinstance(part, _ast.FunctionDef) and part.name.startswith("test")}
