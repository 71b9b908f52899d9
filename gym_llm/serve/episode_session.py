"""EpisodeSession: one client's environment, which plays one episode after another.

A client may vanish at any time and reconnect, so a call is never tied to its caller:

1. `_start` runs a reset or a step at once, up to the first `wait` (a tool, a judge). If it does not wait, the result is
   returned without a task: this is the usual case, and the fast one.
2. If it waits, the rest runs as the session's only task, and callers wait on a shield. A caller that is cancelled
   leaves the task running; `last` has its result when the client comes back.
3. Any further call waits until that task is done (`settled`), so that an environment never makes two steps at once.
4. `drain` (the server ends) cancels the task after a moment. `end` abandons the episode, and `release` gives the
   environment to the next client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import gymnasium as gym

from gym_llm.concurrency import Waiting, is_cancellation, run_until_wait
from gym_llm.core.driver import Driver
from gym_llm.core.seeding import forget_seed
from gym_llm.core.step_clock import StepClock
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import CallerError, DataError, InfrastructureError, StepTimeout
from gym_llm.protocols.http.server_memory import Holding
from gym_llm.records.failures import Failure
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.types import Episode, Item, OutcomeName, Request

if TYPE_CHECKING:
    from gym_llm.serve.sessions import SessionCounters

_ASKED_WRONGLY = (DataError, IndexError, ValueError, TypeError, OverflowError)


class BadRequest(CallerError):
    """Raised when a request is invalid: an unknown task, an invalid action, or a step without an episode.

    The session is unchanged.
    """


class EpisodeFailed(InfrastructureError):
    """Raised when the environment or its infrastructure has failed: the episode has no reward.

    Attributes:
        failure: The failure, as records have it.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason, failure_kind=failure.kind)
        self.failure = failure


class Step(NamedTuple):
    """The result of a reset or a step.

    Attributes:
        request: The observation: the whole request to answer next.
        reward: 0.0 for a reset.
        terminated: Whether the episode ended by itself.
        truncated: Whether the episode was truncated.
        info: The info of `env.step`.
        new_items: The environment's items after the action: outputs of tools, the user's next message. The request
            shares them, so they must not be changed.
    """

    request: Request
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    new_items: list[Item]

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class EpisodeSession:
    """The environment of one client. Used from one event loop.

    Calls run one after the other. A call goes on when its caller is cancelled, because a client that has lost its
    connection may return. `last` then has the result that it missed.

    Args:
        session_id: The id, which is the right to play the session.
        env_id: The environment's id.
        factory: Makes the environment at the first reset.
        env: An environment to use instead.
        clock: Ends resets and steps that wait too long.
        tally: Counts resets, steps and outcomes.

    Attributes:
        id: The session's id.
        env_id: The environment's id.
        tally: Counts resets, steps and outcomes.
        last: The last result that did not fail; None before the first.
        total_reward: The reward of the episode so far.
        turn_rewards: The rewards of its steps.
        outcome: How the episode ended; None while it is under way, or before the first.
        failure: The failure of a masked episode; None for any other.
        asked_at: The time of the last request, `time.monotonic()`; `Sessions` sets it.
        is_ended: Whether `end` was called.
        on_end: Called when the session expires or the server ends, but not when its opener closes it.
        notes: Values that protocols keep for the session.
        holding: What its episode has received, in the process's account.
    """

    __slots__ = (
        *(
            "_clock",
            "_driver",
            "_factory",
            "_task",
            "asked_at",
            "env_id",
            "failure",
            "holding",
            "id",
            "is_ended",
            "last",
        ),
        *("notes", "on_end", "outcome", "tally", "total_reward", "turn_rewards"),
    )

    def __init__(
        self,
        session_id: str,
        env_id: str,
        factory: EnvFactory,
        env: gym.Env[Any, Any] | None,
        clock: StepClock | None,
        tally: SessionCounters,
    ) -> None:
        self.id = session_id
        self.env_id = env_id
        self.last: Step | None = None
        self.total_reward = 0.0
        self.turn_rewards: list[float] = []
        self.outcome: OutcomeName | None = None
        self.failure: Failure | None = None
        self.asked_at = 0.0
        self.is_ended = False
        self.on_end: Callable[[], None] | None = None
        self.notes: dict[str, Any] = {}
        self.holding = Holding()
        self._factory = factory
        self._clock = clock
        self._driver = None if env is None else Driver(env, clock)
        self.tally = tally
        self._task: asyncio.Task[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a reset or a step is under way."""
        return self._task is not None

    @property
    def driver(self) -> Driver:
        """The driver of its environment, which is made if necessary."""
        if self._driver is None:
            self._driver = Driver(self._factory.make(), self._clock)
        return self._driver

    @property
    def verifier(self) -> VerifierEnv:
        """The environment that it plays, without its wrappers; made if necessary."""
        return self.driver.verifier

    @property
    def env(self) -> gym.Env[Any, Any]:
        """The environment that it plays, with its wrappers; made if necessary."""
        return self.driver.env

    @property
    def episode(self) -> Episode | None:
        """The episode being played, or the last one; None before the first."""
        return self._driver.verifier.episode if self._driver is not None else None

    @property
    def is_playing(self) -> bool:
        """Whether an episode is under way."""
        return self.last is not None and self.outcome is None

    async def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Step:
        """Begin an episode; an episode under way is abandoned.

        Args:
            seed: As for `env.reset`.
            options: `task_index`, `task`: as for `VerifierEnv.reset`.

        Raises:
            BadRequest: If the task or an option is unknown, or the row is invalid.
            EpisodeFailed: If a hook failed.
        """
        return await self._alone(self._reset, seed, options)

    async def step(self, action: Any) -> Step:
        """Take a model's turn: a Responses answer, its items, or a text, which becomes a message.

        Raises:
            BadRequest: If the action is invalid, or no episode is under way; the episode is unchanged.
            EpisodeFailed: If a hook or a tool failed; the episode is over and masked.
        """
        begun = perf_counter()
        try:
            return await self._alone(self._step, _as_action(action))
        finally:
            self.tally.seconds.observe(perf_counter() - begun)

    def start_reset(self, seed: int | None, options: dict[str, Any] | None) -> Step | asyncio.Future[Step]:
        """Reset and return at once: the result, or a Future if the environment waits."""
        return self._start(self._reset, seed, options)

    def start_step(self, action: Any) -> Step | asyncio.Future[Step]:
        """Step and return at once: the result, or a Future if the environment waits."""
        begun = perf_counter()
        outcome: Step | asyncio.Future[Step] = self._start(self._step, _as_action(action))
        if isinstance(outcome, asyncio.Future):
            outcome.add_done_callback(lambda _: self.tally.seconds.observe(perf_counter() - begun))
        else:
            self.tally.seconds.observe(perf_counter() - begun)
        return outcome

    async def cut_short(self) -> Step:
        """Truncate the episode under way: `verify` scores what there is.

        Raises:
            BadRequest: If no episode is under way.
            EpisodeFailed: If `verify` or `teardown` failed; the episode is over and masked.
        """
        return await self._alone(self._cut_short)

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a synchronous function that may `wait`, between steps; its exceptions are raised.

        For protocols that do more than step an episode, e.g. call a tool outside of a turn.
        """
        return await self._alone(function, *args)

    async def settled(self) -> None:
        """Wait until no reset and no step is under way, so that the session's state is final."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def drain(self, seconds: float) -> None:
        """Give a call under way some seconds to end, then cancel it; no further call begins."""
        self.is_ended = True
        if (task := self._task) is not None:
            await asyncio.wait({task}, timeout=seconds)
            task.cancel()

    async def end(self) -> None:
        """Abandon the episode under way, and run its `teardown`. No further call begins."""
        self.is_ended = True
        await self._alone(self._end)

    def release(self) -> gym.Env[Any, Any] | None:
        """Return the environment, if there is one, and forget it."""
        driver, self._driver = self._driver, None
        self.last, self.notes = None, {}
        self.holding.clear()
        if driver is None:
            return None
        forget_seed(driver.env)  # the next client must not continue this client's random numbers
        return driver.env

    def fail(self, error: BaseException) -> EpisodeFailed:
        """Mask the episode for an exception, and return the error to raise. The episode's `teardown` must have run."""
        if self.outcome is not None:  # it was scored before its timeout was noticed
            self.tally[self.outcome] -= 1
        self.failure = self.driver.failure(error)
        self.outcome = "masked"
        self.tally["masked"] += 1
        return EpisodeFailed(self.failure)

    # -- parts -----------------------------------------------------------------------------------------------------

    async def _alone(self, function: Callable[..., Any], *args: Any) -> Any:
        await self.settled()
        outcome = self._start(function, *args)
        return await outcome if isinstance(outcome, asyncio.Future) else outcome

    def _start(self, function: Callable[..., Any], *args: Any) -> Any:
        if self._task is not None:
            return asyncio.ensure_future(self._alone(function, *args))
        if self.is_ended and function != self._end:  # no one would close a new environment
            raise BadRequest("The session has ended.")
        self.holding.take(anew=function == self._reset)
        outcome = run_until_wait(function, *args)
        if not isinstance(outcome, Waiting):
            return outcome
        self._task = asyncio.create_task(self._resume(outcome))
        self._task.add_done_callback(_look_at)
        return asyncio.shield(self._task)

    async def _resume(self, suspended: Waiting[Any]) -> Any:
        try:
            return await self.driver.resume(suspended)
        except StepTimeout as late:
            raise self.fail(late) from None
        finally:
            self._task = None

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> Step:
        if self.is_playing:
            self.tally["abandoned"] += 1
        driver, verifier = self.driver, self.verifier
        self.tally["resets"] += 1
        self.last, self.outcome, self.failure = None, None, None
        self.total_reward, self.turn_rewards = 0.0, []
        try:
            request, info = driver.reset(seed=seed, options=options)
        except BaseException as error:  # a panic in Rust is not an Exception
            if is_cancellation(error):
                raise
            if isinstance(error, _ASKED_WRONGLY) and verifier.episode is None and verifier.phase == "env":
                raise BadRequest(str(error)) from None
            raise self.fail(error) from error
        self.last = Step(request, 0.0, False, False, info, cast(Episode, verifier.episode).items[:])
        return self.last

    def _step(self, action: Any) -> Step:
        driver, episode = self._driver, self.episode
        if driver is None or episode is None or not self.is_playing:
            raise BadRequest("No episode is under way: reset first.")
        before = len(episode.items)
        try:
            request, reward, terminated, truncated, info = driver.step(action)
        except BaseException as error:
            if is_cancellation(error):
                raise
            if driver.refuses(error):
                raise BadRequest(str(error)) from None
            raise self.fail(error) from error
        self.tally["steps"] += 1
        self.turn_rewards.append(float(reward))
        self.total_reward += float(reward)
        new_items = _said_after(episode.items, before)
        self.last = Step(request, float(reward), terminated, truncated, info, new_items)
        if terminated or truncated:
            self.outcome = "truncated" if truncated else "scored"
            self.tally[self.outcome] += 1
        return self.last

    def _cut_short(self) -> Step:
        driver = self._driver
        if driver is None or self.last is None or not self.is_playing:
            raise BadRequest("No episode is under way: reset first.")
        try:
            _, reward, _, _, info = driver.truncate(self.last.request)
        except BaseException as error:
            if is_cancellation(error):
                raise
            raise self.fail(error) from error
        self.total_reward += float(reward)
        self.last = Step(self.last.request, float(reward), False, True, info, [])
        self.outcome = "truncated"
        self.tally["truncated"] += 1
        return self.last

    def _end(self) -> None:
        if self._driver is None:
            return
        if self.is_playing:
            self.tally["abandoned"] += 1
        self.last = None
        self._driver.end()
        self._driver.verifier.episode = None


def _as_action(action: Any) -> Any:
    return [said(action)] if isinstance(action, str) else action


def said(text: str) -> Item:
    """Return a text as a model's message."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _said_after(items: list[Item], start: int) -> list[Item]:
    for index in range(start, len(items)):
        item = items[index]
        if item.get("type") == "function_call_output" or item.get("role", "assistant") != "assistant":
            return items[index:]
    return []


def _look_at(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception, for asyncio warns about others: the client has disconnected."""
    if not task.cancelled():
        task.exception()
