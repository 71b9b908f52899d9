"""Running a Python file as `python FILE` would, in an interpreter that runs already."""

from __future__ import annotations

import _sitebuiltins
import builtins
import io
import linecache
import os
import sys
import threading
import traceback
import types
from typing import NoReturn

_made: list[str] = []  # streams, which the sandbox's first process may have made for all


def run(path: str) -> NoReturn:
    """Run a file as `__main__`, and end as the interpreter would.

    Args:
        path: The file.
    """
    fresh()
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = module
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    code = 0
    try:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as error:
        code = exit_code(error)
    except BaseException as error:
        tell(error)
        code = 1
    finish(code)


def fresh() -> None:
    """Set up what a new interpreter has of its own: streams, random numbers, `exit`."""
    if not _made:
        streams()
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # all runs are forks of one process
    linecache.clearcache()
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))


def streams() -> None:
    """Make the interpreter's streams anew, over the first three descriptors."""
    for name in ("stdin", "stdout", "stderr"):
        number = ("stdin", "stdout", "stderr").index(name)
        mode = "rb" if number == 0 else "wb"
        raw = open(number, mode, -1 if number < 2 else 0, closefd=False)
        errors = "backslashreplace" if number == 2 else "strict"
        stream = io.TextIOWrapper(raw, "utf-8", errors, write_through=number == 2, line_buffering=number == 2)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        _made.append(name)


def exit_code(error: SystemExit) -> int:
    """Return the exit code of the interpreter for this exception."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def tell(error: BaseException) -> None:
    """Print a traceback that begins with the program's own lines."""
    try:
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
        sys.stdout.flush()
        traceback.print_exception(type(error), error, trace)
    except BaseException:
        os.write(2, type(error).__name__.encode() + b"\n")


def finish(code: int) -> NoReturn:
    """Wait for threads, call what was registered for the end, write what is still to be written, and end."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        import atexit

        atexit._run_exitfuncs()
        sys.stdout.flush()
    except SystemExit as error:
        code = exit_code(error)
    except BaseException as error:
        tell(error)
        code = code or 120
    finally:
        os._exit(code)
