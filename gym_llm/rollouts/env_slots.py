"""EnvSlots: many environments of one kind in one process; each slot plays one episode at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, cast

import gymnasium as gym

from gym_llm.concurrency import SHUTDOWN_ERRORS, Waiting, is_cancellation, run_until_wait
from gym_llm.core.driver import Driver
from gym_llm.core.step_clock import StepClock
from gym_llm.errors import StepTimeout
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.utils.secrets import redacted_logger

_CLOSING_SECONDS = 60.0
_ENDS_ALL = (KeyboardInterrupt, *SHUTDOWN_ERRORS)
logger = redacted_logger(__name__)


class Reset(NamedTuple):
    """An order to begin an episode, in place of an action."""

    seed: int | None = None
    options: dict[str, Any] | None = None


class StepResult(NamedTuple):
    """The result of one slot's step or reset.

    Attributes:
        slot: The slot's number.
        observation: The observation to answer next.
        reward: 0.0 for a reset.
        terminated: Whether the episode ended by itself.
        truncated: Whether a limit ended it.
        info: The info that belongs to `observation`.
        final: Observation and info of the episode that ended, if the slot was reset in the same step.
        error: The environment's error; the other fields are not valid then.
    """

    slot: int
    observation: Any = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = {}
    final: tuple[Any, dict[str, Any]] | None = None
    error: BaseException | None = None


class EnvSlots:
    """Slots 0 to `num_envs - 1`, whose environments are made when they are first used.

    Args:
        factory: Makes the environments.
        num_envs: Number of slots.
        wrappers: Wrappers of each environment, the first one innermost.
        same_step_reset: Whether a slot whose episode ends is reset at once (Gymnasium's `AutoresetMode.SAME_STEP`).
        step_timeout: Seconds that a step may wait; None for no limit.
    """

    def __init__(
        self,
        factory: EnvFactory,
        num_envs: int,
        wrappers: Sequence[Wrap] = (),
        *,
        same_step_reset: bool = False,
        step_timeout: float | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"A vector of environments has 1 or more, got {num_envs}.")
        self.env_id = factory.env_id
        self.num_envs = num_envs
        self._factory = factory
        self._wrappers = tuple(wrappers)
        self._same_step_reset = same_step_reset
        self._clock = None if step_timeout is None else StepClock(step_timeout)
        self._drivers: list[Driver] = []
        self._ready: deque[StepResult] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._suspended: list[tuple[int, Waiting[StepResult]]] = []
        self._arrived: asyncio.Event | None = None

    def env(self, slot: int) -> gym.Env[Any, Any]:
        """Return a slot's environment, which is made if necessary, after those of the slots before it."""
        return self.driver(slot).env

    def driver(self, slot: int) -> Driver:
        """Return what plays the slot's environment, which is made if necessary."""
        while len(self._drivers) <= slot:
            self._drivers.append(Driver(self._factory.make(self._wrappers), self._clock))
        return self._drivers[slot]

    # -- single steps ----------------------------------------------------------------------------------------------

    def submit(self, slots: Sequence[int], orders: Sequence[Any]) -> None:
        """Give each idle slot an action or a `Reset`. Slots that need not wait are finished on return."""
        for slot, order in zip(slots, orders, strict=True):
            outcome = run_until_wait(self.perform, slot, order)
            if isinstance(outcome, Waiting):
                self._suspended.append((slot, outcome))
            else:
                self._ready.append(outcome)

    def take(self, most: int | None = None) -> list[StepResult]:
        """Return the results that are ready, oldest first, at most `most` of them."""
        if most is None or most >= len(self._ready):
            outcomes = list(self._ready)
            self._ready.clear()
            return outcomes
        return [self._ready.popleft() for _ in range(most)]

    @property
    def ready(self) -> int:
        """Number of results that wait to be taken."""
        return len(self._ready)

    async def wait_ready(self, count: int) -> None:
        """Wait until `count` results are ready, no slot is busy, or the next call of this method comes."""
        self._resume_all()
        if self._arrived is not None:
            self._arrived.set()
        self._arrived = arrived = asyncio.Event()
        while self._arrived is arrived and len(self._ready) < count and self._tasks:
            arrived.clear()
            await arrived.wait()

    def perform(self, slot: int, order: Any) -> StepResult:
        """Carry out one slot's order; an error of the environment becomes part of the result."""
        try:
            driver = self.driver(slot)
            if isinstance(order, Reset):
                observation, info = driver.reset(seed=order.seed, options=order.options)
                return StepResult(slot, observation, info=info)
            observation, reward, terminated, truncated, info = driver.step(order)
            if self._same_step_reset and (terminated or truncated):
                final = observation, info
                observation, info = driver.reset()
                return StepResult(slot, observation, float(reward), terminated, truncated, info, final)
            return StepResult(slot, observation, float(reward), terminated, truncated, info)
        except BaseException as error:  # the caller's to raise, in its own process; a panic in Rust is no Exception
            if is_cancellation(error):
                raise
            return StepResult(slot, error=error)

    def _resume_all(self) -> None:
        for slot, suspended in self._suspended:
            self._tasks.add(asyncio.create_task(self._resume(slot, suspended)))
        self._suspended.clear()

    async def _resume(self, slot: int, suspended: Waiting[StepResult]) -> None:
        try:
            if slot < len(self._drivers):
                outcome = await self._drivers[slot].resume(suspended)
            elif self._clock is None:
                outcome = await suspended.resume()
            else:
                with self._clock.step(None):  # the environment's constructor waits
                    outcome = await suspended.resume()
        except StepTimeout as late:
            outcome = StepResult(slot, error=late)
        except asyncio.CancelledError:
            outcome = StepResult(slot, error=RuntimeError("The environment was closed while this step was waiting."))
        self._tasks.discard(cast("asyncio.Task[Any]", asyncio.current_task()))
        self._ready.append(outcome)
        if self._arrived is not None:
            self._arrived.set()

    def call(self, slots: Iterable[int], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Call a method of some environments (or of their wrappers), or return an attribute that is not callable."""
        values = [self.env(slot).get_wrapper_attr(name) for slot in slots]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in values)

    def assign(self, slots: Iterable[int], name: str, values: Iterable[Any]) -> None:
        """Set an attribute of some environments, each to its own value."""
        for slot, value in zip(slots, values, strict=True):
            self.env(slot).set_wrapper_attr(name, value)

    async def aclose(self) -> None:
        """Cancel the steps that wait, and close every environment; teardowns run on this event loop.

        Raises:
            Exception: If closing an environment raises: the first error. The others are closed all the same.
        """
        self._resume_all()
        for _ in range(2):  # a task, and a tool's within it, has to begin before it can learn of its cancellation
            await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
        drivers, self._drivers = self._drivers, []
        endings = [driver.end for driver in drivers if driver.verifier.open_episode is not None]
        failures = await _failures(endings) + await _failures([driver.env.close for driver in drivers])
        for failure in failures[1:]:
            logger.warning("Closing %s failed: %r", self.env_id, failure, exc_info=failure)
        if failures:
            raise failures[0]


async def _failures(calls: Iterable[Callable[[], Any]]) -> list[BaseException]:
    """Return the errors of synchronous calls. Only calls that wait get a task: there may be 65,536 slots."""
    failures: list[BaseException] = []
    waiting: list[Coroutine[Any, Any, Any]] = []
    for call in calls:
        try:
            outcome = run_until_wait(call)
        except _ENDS_ALL:
            raise
        except BaseException as failure:
            failures.append(failure)
        else:
            if isinstance(outcome, Waiting):
                waiting.append(_failure(outcome))
    results = await asyncio.gather(*waiting, return_exceptions=True)
    return failures + [result for result in results if isinstance(result, BaseException)]


async def _failure(call: Waiting[Any]) -> BaseException | None:
    try:
        await call.resume()
    except _ENDS_ALL:
        raise
    except BaseException as failure:  # returned: a task's SystemExit ends the event loop
        return failure
    return None
