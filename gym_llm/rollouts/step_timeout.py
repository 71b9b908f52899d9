"""What happens to a step that waits too long."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from gym_llm.errors import StepTimeout

_TICKS = 8


class StepClock:
    """Counts the time of the steps of an event loop, but not while one of them blocks it: that is `Watchdog`'s.

    A `teardown` does not count: it has a limit of its own, and the episode is scored by then.

    Args:
        seconds: How long a step may wait. It is cut off at most a quarter of that later.
    """

    def __init__(self, seconds: float) -> None:
        self._period = seconds / _TICKS
        self.steps: set[TimedStep] = set()
        self._ticking = False

    def step(self, verifier: Any) -> TimedStep:
        """A context in which the running task is cut off with `StepTimeout` when the time is over.

        Args:
            verifier: The `VerifierEnv` that takes the step; None while it is being made.
        """
        return TimedStep(self, verifier)

    def start(self) -> None:
        """Begin to tick, until there are no steps."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(self._period, self._tick)

    def _tick(self) -> None:
        for step in self.steps:
            step.tick()
        self._ticking = bool(self.steps)
        if self._ticking:
            asyncio.get_running_loop().call_later(self._period, self._tick)


class TimedStep:
    """See `StepClock.step`."""

    __slots__ = ("_cancellations", "_clock", "_phase", "_task", "_ticks", "_verifier")

    def __init__(self, clock: StepClock, verifier: Any) -> None:
        self._clock = clock
        self._verifier = verifier
        self._ticks = self._cancellations = 0

    def tick(self) -> None:
        """Count; cancel what the task waits for when it has been too long, and again for whoever goes on waiting."""
        if self._verifier is not None and self._verifier.phase == "teardown":
            return
        self._ticks += 1
        if self._ticks > _TICKS and self._ticks % _TICKS == 1:
            self._cancellations += 1
            self._phase = "env" if self._verifier is None else self._verifier.phase
            self._task.cancel()

    def __enter__(self) -> None:
        """Begin."""
        task = asyncio.current_task()
        assert task is not None, "a step outside of an event loop"
        self._task = task
        self._clock.steps.add(self)
        self._clock.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """End; a cancellation of ours becomes a `StepTimeout`, also where a hook has swallowed it and gone on."""
        self._clock.steps.discard(self)
        others = 0  # who have cancelled the task, too
        for _each in range(self._cancellations):
            others = self._task.uncancel()
        if self._cancellations and not others and kind in (None, asyncio.CancelledError):
            if kind is None and self._verifier is not None:
                self._verifier.phase = self._phase  # where the time was lost
            raise StepTimeout from None
