"""StepClock: the time limit of an environment's resets and steps."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol

from gym_llm.errors import StepTimeout

_TICKS = 8


class HasPhase(Protocol):
    """An environment, or anything else with the phase that it is in."""

    phase: str


class StepClock:
    """Measures how long steps wait; a step that blocks the event loop is interrupted by `LoopWatchdog` instead.

    One timer serves all steps of an event loop. It ticks eight times per limit, so a step is cancelled at most a
    quarter of the limit late. A `teardown` does not count: it has its own limit, and the episode is scored by then.

    Args:
        seconds: Time that a step may wait.
    """

    def __init__(self, seconds: float) -> None:
        self._period = seconds / _TICKS
        self.steps: set[TimedStep] = set()
        self._ticking = False

    def step(self, env: HasPhase | None) -> TimedStep:
        """Return a context that raises `StepTimeout` in the running task when the time is over.

        Args:
            env: The environment that takes the step; None while it is being made.
        """
        return TimedStep(self, env)

    def start(self) -> None:
        """Tick until no step is under way."""
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
    """A context in which a task is cancelled after the clock's limit; see `StepClock.step`."""

    __slots__ = ("_cancellations", "_clock", "_env", "_phase", "_task", "_ticks")

    def __init__(self, clock: StepClock, env: HasPhase | None) -> None:
        self._clock = clock
        self._env = env
        self._ticks = self._cancellations = 0

    def tick(self) -> None:
        """Count a tick; cancel the task when its time is over, and again if it swallows the cancellation."""
        if self._env is not None and self._env.phase == "teardown":
            return
        self._ticks += 1
        if self._ticks > _TICKS and self._ticks % _TICKS == 1:
            self._cancellations += 1
            self._phase = "env" if self._env is None else self._env.phase
            self._task.cancel()

    def __enter__(self) -> None:
        """Start the count."""
        task = asyncio.current_task()
        assert task is not None, "a step outside of an event loop"
        self._task = task
        self._clock.steps.add(self)
        self._clock.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Raise `StepTimeout` in place of the clock's own cancellation, also where a hook has swallowed it."""
        self._clock.steps.discard(self)
        others = 0  # cancellations by others
        for _each in range(self._cancellations):
            others = self._task.uncancel()
        if self._cancellations and not others and kind in (None, asyncio.CancelledError):
            if kind is None and self._env is not None:
                self._env.phase = self._phase  # where the time was lost
            raise StepTimeout from None
