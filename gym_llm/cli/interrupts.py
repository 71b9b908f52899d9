"""Handling of Ctrl-C, SIGTERM and SIGHUP: the first ends a run in order, the second at once."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import termios
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from types import FrameType, TracebackType
from typing import Any

from gym_llm.errors import BudgetSpent, CallerError, RayUnavailable, TooManyFailures
from gym_llm.records.failures import reason

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_COMMANDS = ("gym-llm", "__main__.py")
_ENGINES = logging.getLogger("gym_llm.engines")
_SHOW_CURSOR = "\x1b[?25h"


class Interrupts(AbstractContextManager["Interrupts"]):
    """A context that handles signals.

    During `run` the first signal cancels the coroutine. Before `run` it raises KeyboardInterrupt, which the context
    swallows; after `run` it is only noted. The second signal ends the process at once. An ignored SIGHUP, as under
    `nohup`, stays ignored.

    Attributes:
        code: 128 plus the number of the first signal, the exit code that shells expect; 0 without a signal.
        last_words: The text that the second signal prints, e.g. how to resume.
        last_warning: The engines' last warning, e.g. that a server refuses requests; "" without one.
    """

    def __init__(self) -> None:
        self.code = 0
        self.last_words = self.last_warning = ""
        self._log = _Warnings(self)
        self._before: dict[int, Any] = {}
        self._has_run = False
        self._cancel: Callable[[], object] | None = None

    def __enter__(self) -> Interrupts:
        """Install the handlers."""
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if number != signal.SIGHUP or handler != signal.SIG_IGN:
                self._before[number] = handler
                signal.signal(number, self._interrupt)
        _ENGINES.addHandler(self._log)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Restore the handlers, unless the process is about to end: the second signal must work until then."""
        _ENGINES.removeHandler(self._log)
        if not (self.code and os.path.basename(sys.argv[0]) in _COMMANDS):
            for number, handler in self._before.items():
                signal.signal(number, handler)
        return bool(self.code and isinstance(error, KeyboardInterrupt))

    @property
    def resumable_code(self) -> int:
        """The exit code of a run that can be resumed: 75 after SIGTERM, else `code`.

        Slurm and spot machines send SIGTERM when the time is up. A batch script that sees 75 starts the command again.
        """
        return os.EX_TEMPFAIL if self.code == 128 + signal.SIGTERM else self.code

    def run(
        self,
        start: Callable[[], Coroutine[Any, Any, None]],
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """Run a coroutine in a new event loop until it ends or a signal arrives.

        Args:
            start: Returns the coroutine.
            loop_factory: Returns the loop; None for asyncio's default.

        Raises:
            Exception: If the coroutine raises; after a signal only a `CallerError` or `TooManyFailures`.
        """
        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                loop = runner.get_loop()
                task = loop.create_task(start())
                # Not loop.add_signal_handler: the second signal has to work while the loop is blocked, e.g. by loading
                # a model.
                self._has_run, self._cancel = True, lambda: loop.call_soon_threadsafe(task.cancel)
                try:
                    loop.run_until_complete(task)
                finally:
                    self._cancel = None
        except asyncio.CancelledError:
            if not self.code:
                raise
        except RayUnavailable:
            if not self.code:
                raise  # else the run ends, and needs it no more
        except Exception as error:  # the end of a run that was interrupted can go wrong, too
            if not self.code or isinstance(error, (CallerError, TooManyFailures, BudgetSpent)):
                raise
            with suppress(OSError):
                print(f"gym-llm: ending the run failed: {reason(error)}", file=sys.stderr)

    def _interrupt(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_dead_terminal()
        if self.code:
            with suppress(OSError):
                words = f"\r{_SHOW_CURSOR}" if os.isatty(2) else ""  # a progress bar hides it
                os.write(2, f"{words}{self.last_words}".encode(errors="replace"))
            os._exit(128 + number)
        self.code = 128 + number
        if self._cancel is not None:
            self._cancel()
        elif not self._has_run:
            raise KeyboardInterrupt


class _Warnings(logging.Handler):
    """Remembers the last warning, and prints it as Python does without a handler."""

    def __init__(self, interrupts: Interrupts) -> None:
        super().__init__(logging.WARNING)
        self._interrupts = interrupts

    def emit(self, record: logging.LogRecord) -> None:
        self._interrupts.last_warning = record.getMessage()
        if logging.lastResort is not None and not logging.root.handlers:
            logging.lastResort.handle(record)


def run_until_interrupted(
    start: Callable[[], Coroutine[Any, Any, None]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Run a coroutine until it ends or a signal arrives; see `Interrupts.run`. Returns `Interrupts.code`."""
    with Interrupts() as interrupts:
        interrupts.run(start, loop_factory)
    return interrupts.code


def _leave_dead_terminal() -> None:
    """Redirect the output to /dev/null if the terminal is gone, so that printing does not fail."""
    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
