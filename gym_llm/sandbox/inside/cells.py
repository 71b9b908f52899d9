"""An interpreter that runs one piece of Python after another in one namespace, as a notebook does."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import traceback
import types
from typing import Any, NoReturn

from . import framing, script


def serve(requests: int, replies: int) -> NoReturn:
    """Run cells until the other side closes.

    The reply to a cell is a dict of texts. If the last line is an expression whose value is not None, `repr` and `str`
    have its value. If the cell raised, `error` has the traceback.

    Args:
        requests: The stream of cells.
        replies: The stream of replies.
    """
    receive, send = framing.receive, framing.send
    script.fresh()
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [""]
    sys.path.insert(0, "")
    count, process = 0, os.getpid()
    while True:
        try:
            header, pieces = receive(requests)
        except EOFError:
            os._exit(0)
        count += 1
        texts = evaluate(pieces[0].decode("utf-8", "replace"), f"<cell {count}>", module.__dict__)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass  # it closed them, or put something else there
        if os.getpid() != process:  # a copy that the cell has made: it ends with the cell
            os._exit(0)
        limit = header["limit"]
        send(
            replies,
            {"names": [name for name, _ in texts]},
            [text[:limit].encode("utf-8", "replace")[:limit] for _, text in texts],
        )


def evaluate(source: str, name: str, namespace: dict[str, Any]) -> list[tuple[str, str]]:
    """Run a cell: the texts of its answer, by name."""
    lines = source.splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)  # tracebacks show the cell's lines
    try:
        tree = ast.parse(source, name)
    except BaseException as error:
        return [("error", _traceback(error.with_traceback(None)))]
    try:
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, name, "exec", dont_inherit=True), namespace)
        if not isinstance(last, ast.Expr):
            return []
        value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), namespace)
        if value is None:
            return []
        namespace["_"] = value
        return [("repr", repr(value)), ("str", str(value))]
    except SystemExit as error:
        return [("error", f"SystemExit: {error.code}")]
    except BaseException as error:
        return [("error", _traceback(error))]


def _traceback(error: BaseException) -> str:
    try:
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
        return "".join(traceback.format_exception(type(error), error, trace))
    except BaseException:
        return type(error).__name__
