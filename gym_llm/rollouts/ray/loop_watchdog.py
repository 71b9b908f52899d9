"""Watching an event loop that runs code which may never come back."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import CodeType, FrameType
from typing import Any

_GRACE = 2.0
_LONGEST_PERIOD = 1.0
_STDERR = 2


class LoopWatchdog:
    """Interrupts code that blocks the event loop, from a thread of its own.

    The watchdog raises an exception in Python code that blocks for too long. Its episode is lost, and the other
    episodes of the process go on. Code that sleeps or computes in C, or catches everything, may block for two more
    seconds; then the watchdog ends the process. It also ends a process whose code keeps Python's global lock.

    Args:
        seconds: The longest time that a step, or other code, may block the event loop.
        error: The exception to raise.
        steps: Functions of which several calls may run in one turn of the loop.
    """

    def __init__(self, seconds: float, error: type[Exception], *steps: Callable[..., Any]) -> None:
        self._awake = False
        self._seconds = seconds
        self._period = min(seconds / 8, _LONGEST_PERIOD)
        self._error = error
        self._steps = {step.__code__ for step in steps}
        self._turns = 0
        self._stopped = threading.Event()

    def start(self) -> None:
        """Watch the running event loop."""
        self.wake()
        arguments = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(target=self._watch, args=arguments, name="LoopWatchdog", daemon=True).start()

    def sleep(self) -> None:
        """Look away until `wake`: what comes takes as long as it takes."""
        self._awake = False
        faulthandler.cancel_dump_traceback_later()

    def wake(self) -> None:
        """Watch again."""
        self._awake = True
        self._set_fuse()

    def stop(self) -> None:
        """Never look again."""
        self._stopped.set()
        self.sleep()

    def _set_fuse(self) -> None:
        faulthandler.dump_traceback_later(self._seconds + _GRACE + self._period, exit=True, file=_STDERR)

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        last_turn, last_step, since, interrupted = -1, None, 0.0, False
        while not self._stopped.wait(self._period):
            loop.call_soon_threadsafe(self._turn)
            frame = sys._current_frames().get(thread)
            if frame is None:  # the loop's thread is gone: it was interrupted just after the step had ended
                os._exit(1)
            step = _call_of(self._steps, frame)
            if self._awake:
                self._set_fuse()
            else:
                faulthandler.cancel_dump_traceback_later()
            if not self._awake or step is not last_step or self._turns != last_turn:
                last_turn, last_step, since, interrupted = self._turns, step, monotonic(), False
                continue
            blocked = monotonic() - since
            if blocked > self._seconds + _GRACE:
                os._exit(1)
            if blocked > self._seconds and not interrupted:
                interrupted = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(self._error))

    def _turn(self) -> None:
        self._turns += 1


def _call_of(functions: set[CodeType], frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code not in functions:
        frame = frame.f_back
    return frame
