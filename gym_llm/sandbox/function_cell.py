"""Calls of a program's function inside a sandbox: the text of a cell, never imported outside.

It runs in the process of the code that a model wrote, which can change all of it. It says what was returned, and does
not know the expected value. `load` and `call` answer in JSON: `{"value": …}`, or `{"error": …}`.
"""

import json as _json
import sys as _sys
import types as _types

_function = None
_form = None


def _plain(value: object) -> object:
    if hasattr(value, "tolist"):  # numpy's
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return {"__set__": sorted(value, key=repr)}
    if isinstance(value, complex):
        return {"__complex__": [value.real, value.imag]}
    return {"__repr__": repr(value)[:2000]}


def _answer(name: str, value: object) -> str:
    return _json.dumps({name: value}, ensure_ascii=False, default=_plain)


def load(source: str, name: str, of_solution: bool, form: str = "", names: str = "") -> str:
    """Run a program and find its function, or that method of its class `Solution`.

    `form` is an expression that makes the arguments of the list `args`, where JSON cannot hold them. `names` are
    imports whose names the program finds. SystemExit is a way to end for a program: its functions are there then.
    """
    global _function, _form
    _form = eval(f"lambda args: {form}") if form else list  # noqa: S307 - a text of the verifier's own
    if hasattr(_sys, "set_int_max_str_digits"):
        _sys.set_int_max_str_digits(0)
    module = _types.ModuleType("solution")
    _sys.modules["solution"] = module
    exec(names, module.__dict__)
    try:
        try:
            exec(compile(source, "solution.py", "exec", dont_inherit=True), module.__dict__)
        except SystemExit:
            pass
        _function = getattr(module.Solution() if of_solution else module, name)
    except Exception as error:
        return _answer("error", repr(error)[:2000])
    return _answer("value", None)


def call(arguments: str) -> str:
    """Call it with the arguments of a JSON list."""
    try:
        return _answer("value", _function(*_form(_json.loads(arguments))))  # type: ignore[misc]
    except Exception as error:
        return _answer("error", repr(error)[:2000])
