"""Warming up the sandbox's first process, so that its copies write less to their own memory.

A copy shares its parent's memory until one of them writes to it, page by page. Python writes when it first runs a
function: adapted instructions, and names that types look up. It also writes new objects into gaps all over memory. So
    the
first process plays some sessions itself, runs some cells, and fills the gaps.
"""

from __future__ import annotations

import gc
import linecache
import os
import signal
import socket
import sys
import types
from typing import Any

from . import cells, framing, script, supervisor

_TIMES = 12  # after which the interpreter has adapted a function
_POOL = 1 << 14  # bytes of memory that hold Python's objects of one size
_POOL_HEAD = 48
_STEP, _LARGEST = 16, 512  # bytes: the sizes
_MOST = 100_000  # objects of a size, whatever Python's memory looks like
_LIMITS = {
    **{"cpu_seconds": 60, "wall_seconds": 60, "memory_bytes": 1 << 30, "output_bytes": 1 << 16, "file_bytes": 1 << 20},
    **{"disk_bytes": 1 << 20, "files": 100, "open_files": 64, "processes": 64, "stack_bytes": 8 << 20},
}
_CELLS = ("x = 1\nprint\nx + 1", "1 / 0", "def f(y):\n    return y\n[f(1)]")
_kept: list[object] = []


def warm(settings: dict[str, Any]) -> None:
    """Hold sessions, run cells, make the streams, fill gaps; nothing of it is seen later.

    Args:
        settings: Of the sandbox.
    """
    if hasattr(sys, "_clear_type_cache"):  # not any longer from Python 3.15 on
        sys._clear_type_cache()
    for _ in range(_TIMES):
        _session(settings)
        for number, cell in enumerate(_CELLS):
            cells.evaluate(cell, f"<cell {number}>", types.ModuleType("__main__").__dict__)
    linecache.clearcache()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _streams()
    gc.collect()
    _fill()


def _session(settings: dict[str, Any]) -> None:
    """Be a supervisor of two cells; the interpreter is a process, as always."""
    mine, its = socket.socketpair()
    with mine, its:
        for _ in range(2):
            framing.send(mine.fileno(), {"limits": _LIMITS}, [b"1 + 1"])
        mine.shutdown(socket.SHUT_WR)
        header = {"kind": "cells", "argv": None, "limits": _LIMITS, "environment": settings["environment"]}
        run = supervisor.Run(its.fileno(), its.fileno(), settings, header, [])
        try:
            run.cells()
        except EOFError:
            run.end()


def _streams() -> None:
    kept, pipe = [os.dup(1), os.dup(2)], os.pipe()
    for number in (1, 2):
        os.dup2(pipe[1], number)
    script.streams()
    for number, descriptor in enumerate(kept, 1):
        os.dup2(descriptor, number)
    for descriptor in (*kept, *pipe):
        os.close(descriptor)


def _fill() -> None:
    """Fill the gaps that freed objects left, so that new ones lie together."""
    for size in range(_STEP, _LARGEST + 1, _STEP):
        before, row = 0, 0
        for number in range(_MOST):
            one = object() if size == _STEP else (1 << 40) + number if size == 2 * _STEP else bytes(size - 33)
            _kept.append(one)
            place = id(one)
            row = row + 1 if place == before + size and place // _POOL == before // _POOL else 0
            before = place
            if row >= (_POOL - _POOL_HEAD) // size - 2:  # a whole new pool
                break
