"""Detection of a forgotten `await` in a hook or tool: its coroutine is true, and would pay every answer.

Python reports a dropped coroutine that nothing has awaited to `warnings._warn_unawaited_coroutine`, at the moment at
which its last reference goes. The replacement here looks for the call that is running then. It walks up the stack to
the next frame of `call_hook` or `await_hook`, and appends to that frame's list. The garbage collector may run in any
frame, so what it drops only causes Python's warning.
"""

from __future__ import annotations

import gc
import inspect
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from gym_llm.concurrency import wait

P = ParamSpec("P")
T = TypeVar("T")

_report: Callable[[Any], None] | None = getattr(warnings, "_warn_unawaited_coroutine", None)
_is_collecting = False


def call_hook(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a hook or tool.

    Raises:
        RuntimeError: If it drops a coroutine that nothing has awaited.
        Exception: If it raises.
    """
    dropped: list[str] = []
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        if dropped:
            error.add_note(_sentence(dropped))
        raise
    if dropped:
        raise RuntimeError(_sentence(dropped))
    return result


async def await_hook(awaitable: Awaitable[T]) -> T:
    """Await what an async hook or tool has returned; errors are those of `call_hook`."""
    dropped: list[str] = []
    try:
        result = await awaitable
    except Exception as error:
        if dropped:
            error.add_note(_sentence(dropped))
        raise
    if dropped:
        raise RuntimeError(_sentence(dropped))
    return result


def finish_hook(value: Any) -> Any:
    """Return what a hook has returned, or, if that is awaitable, its result."""
    return wait(await_hook(value)) if inspect.isawaitable(value) else value


_WATCHED = (call_hook.__code__, await_hook.__code__)


def _sentence(dropped: list[str]) -> str:
    return f"{dropped[0]}(...) was called but never awaited: write `await` before it."


def _on_dropped(coroutine: Any) -> None:
    frame = None if _is_collecting else sys._getframe(1)
    while frame is not None:
        if frame.f_code in _WATCHED:
            frame.f_locals["dropped"].append(coroutine.__qualname__)
            return
        frame = frame.f_back
    if coroutine.cr_origin is None:
        sentence = f"coroutine {coroutine.__qualname__!r} was never awaited"
        warnings.warn(sentence, RuntimeWarning, stacklevel=2, source=coroutine)
    elif _report is not None:
        _report(coroutine)


def _on_collection(phase: str, _: dict[str, int]) -> None:
    global _is_collecting
    _is_collecting = phase == "start"


if _report is not None and sys.implementation.name == "cpython":
    warnings._warn_unawaited_coroutine = _on_dropped  # type: ignore[attr-defined]
    gc.callbacks.append(_on_collection)
