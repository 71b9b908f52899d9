"""What happens to a step that waits too long."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import gymnasium as gym

from gym_llm.errors import StepTimeout
from gym_llm.types import Request

_TICKS = 8


class StepClock:
    """Counts the time of the steps of an event loop, but not while one of them blocks it: that is `Watchdog`'s.

    Args:
        seconds: How long a step may wait. It is cut off at most a quarter of that later.
    """

    def __init__(self, seconds: float) -> None:
        self._period = seconds / _TICKS
        self._steps: set[TimedStep] = set()
        self._ticking = False

    def step(self) -> TimedStep:
        """A context in which the running task is cut off with `StepTimeout` when the time is over."""
        return TimedStep(self)

    def add(self, step: TimedStep) -> None:
        """Begin to count a step's time."""
        self._steps.add(step)
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(self._period, self._tick)

    def remove(self, step: TimedStep) -> None:
        """Stop counting."""
        self._steps.discard(step)

    def _tick(self) -> None:
        for step in self._steps:
            step.tick(_TICKS)
        self._ticking = bool(self._steps)
        if self._ticking:
            asyncio.get_running_loop().call_later(self._period, self._tick)


class TimedStep:
    """See `StepClock.step`."""

    __slots__ = ("_clock", "_task", "_ticks")

    def __init__(self, clock: StepClock) -> None:
        self._clock = clock
        self._ticks = 0

    def tick(self, most: int) -> None:
        """Count; cancel what the task waits for when it has been too long."""
        self._ticks += 1
        if self._ticks == most + 1:
            self._task.cancel()

    def __enter__(self) -> None:
        """Begin."""
        task = asyncio.current_task()
        assert task is not None, "a step outside of an event loop"
        self._task = task
        self._clock.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """End; a cancellation of ours becomes a `StepTimeout`."""
        self._clock.remove(self)
        if self._ticks > _TICKS and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise StepTimeout from None


class StepDeadline(gym.Wrapper[Request, Any, Request, Any]):
    """Cuts resets and steps off that wait too long. To be used inside `gym_llm.concurrency.drive` only.

    Args:
        env: The environment.
        clock: Counts the time.
    """

    def __init__(self, env: gym.Env[Any, Any], clock: StepClock) -> None:
        super().__init__(env)
        self._clock = clock

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Request, dict[str, Any]]:
        """Begin an episode, in time or not at all.

        Raises:
            StepTimeout: If it took too long.
        """
        with self._clock.step():
            return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Request, Any, bool, bool, dict[str, Any]]:
        """Take one turn, in time or not at all.

        Raises:
            StepTimeout: If it took too long.
        """
        with self._clock.step():
            return self.env.step(action)
