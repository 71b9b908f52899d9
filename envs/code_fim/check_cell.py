"""Runs a row's test apart from the program: the text of a cell, after `values_cell`.

The test runs in a thread. When it calls the program, the cell ends with the call, `{"value": ["call", …]}`, and the
next cell begins with its result. At the end the answer is `{"value": ["passed"]}` or `{"value": ["failed", why]}`.
"""

# ruff: noqa: F821
import builtins as _builtins
import queue as _queue
import threading as _threading

_said: "_queue.SimpleQueue[list[object]]" = _queue.SimpleQueue()
_told: "_queue.SimpleQueue[dict[str, object]]" = _queue.SimpleQueue()


def load(test: str, entry_point: str, names: "list[str]") -> str:
    """Begin the test."""
    namespace: dict[str, object] = {name: _Function(name) for name in names}
    namespace["__name__"] = "test"
    _threading.Thread(target=_run, args=(test, entry_point, namespace), daemon=True).start()
    return _answer("value", _said.get())  # type: ignore[name-defined]


def call(outcome: str) -> str:
    """Continue with the outcome of a call."""
    _told.put(_json.loads(outcome))  # type: ignore[name-defined]
    return _answer("value", _said.get())  # type: ignore[name-defined]


class _Function:
    """A function of the program, which runs in another process."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *arguments: object, **named: object) -> object:
        request = _json.dumps([_encoded(part) for part in (self.__name__, list(arguments), named)])  # type: ignore[name-defined]
        _said.put(["call", request])
        told = _told.get()
        if "error" not in told:
            return _decoded(told["value"])  # type: ignore[name-defined]
        name, _, text = str(told["error"]).partition(": ")
        kind = getattr(_builtins, name, None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            kind = RuntimeError
        try:
            raised = kind(text)
        except TypeError:
            raised = RuntimeError(text)
        raise raised


def _run(test: str, entry_point: str, namespace: "dict[str, object]") -> None:
    try:
        function = namespace[entry_point]
        exec(compile(test, "<string>", "exec", dont_inherit=True), namespace)
        if callable(check := namespace.get("check")):
            check(function)
        _said.put(["passed"])
    except KeyError as error:
        _said.put(["failed", f"name {error} is not defined"])
    except BaseException as error:
        _said.put(["failed", str(error)[:2000]])
