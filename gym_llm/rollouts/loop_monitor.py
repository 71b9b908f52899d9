"""Naming the hook that holds up all episodes of its process."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from types import CodeType, FrameType

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.utils.secrets import redacted_logger

_PERIOD = 0.05
_TOO_LONG = 0.1
_HOOKS = {"generate", "setup", "opening", "user_turn", "verify", "teardown"}
logger = redacted_logger(__name__)
_named: set[CodeType] = set()


class LoopMonitor:
    """Reports which hook or tool blocks the running event loop, until it is stopped.

    Every 50 ms, a thread schedules a callback in the loop. If the callback does not run, the thread looks at the stack
    of the loop's thread. If the same call of the same hook is still there 100 ms later, that call blocks the loop. The
    episodes do not become slower.

    Args:
        on_block: Called with the hook's code, in the thread, each time; None to log a warning once for each function.
    """

    def __init__(self, on_block: Callable[[CodeType], None] | None = None) -> None:
        self._on_block = on_block or _name
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="gym_llm loop monitor", daemon=True).start()

    def stop(self) -> None:
        """End the thread, soon."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(_PERIOD):
            turned = threading.Event()
            try:
                self._loop.call_soon_threadsafe(turned.set)
            except RuntimeError:  # the loop is closed
                return
            seen: FrameType | None = None
            since = 0.0
            while not turned.wait(_PERIOD) and not self._stopped.is_set():
                hook = _running_hook(sys._current_frames().get(self._thread))
                if hook is None or hook is not seen:
                    seen, since = hook, perf_counter()
                elif perf_counter() - since >= _TOO_LONG:
                    self._on_block(hook.f_code)
            del seen  # a frame keeps alive what is in it


def _running_hook(frame: FrameType | None) -> FrameType | None:
    """The hook or tool that a thread is in, the outermost one; None if it is in none."""
    hook = None
    while frame is not None:
        code = frame.f_code
        if code.co_varnames[:1] == ("self",):
            env = frame.f_locals.get("self")
            if isinstance(env, VerifierEnv) and (code.co_name in _HOOKS or code.co_name in type(env)._tools):
                hook = frame
        frame = frame.f_back
    return hook


def _name(code: CodeType) -> None:
    if code in _named:
        return
    _named.add(code)
    cure = "@tool(blocking=True)" if code.co_name not in _HOOKS else "@hook(blocking=True)"
    logger.warning(
        "%s (%s, line %d) blocks for more than %d ms at a time, and all other episodes of its process wait meanwhile: "
        "make it async, or mark it with %s.",
        code.co_qualname,
        code.co_filename,
        code.co_firstlineno,
        _TOO_LONG * 1000,
        cure,
    )
