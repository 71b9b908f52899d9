"""Ctrl-C and SIGTERM: the first ends a run in order, the second at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

INTERRUPTED = 130
"""The exit code shells give a command that Ctrl-C ended: 128 + SIGINT."""

_SHOW_CURSOR = "\x1b[?25h"


def run_until_interrupted(start: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Run a coroutine in a new event loop; cancel it at the first SIGINT or SIGTERM, end the process at the second.

    Returns whether a signal came.
    """
    interrupted = False
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(start())

        def interrupt(*_: object) -> None:
            nonlocal interrupted
            if interrupted:
                if sys.stderr.isatty():
                    os.write(sys.stderr.fileno(), _SHOW_CURSOR.encode())  # a progress bar hides it
                os._exit(INTERRUPTED)
            interrupted = True
            loop.call_soon_threadsafe(task.cancel)

        # Not loop.add_signal_handler: the second signal has to work while the loop is blocked, e.g. by loading a model.
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not interrupted:
                raise
        finally:
            runner.close()
            for number, handler in before.items():
                signal.signal(number, handler)
    return interrupted
