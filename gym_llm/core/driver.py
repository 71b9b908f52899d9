"""Driver: the protocol of an episode, for everything that plays environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, SupportsFloat, TypeVar

import gymnasium as gym

from gym_llm.concurrency import Waiting, drive, run_until_wait
from gym_llm.core.step_clock import StepClock
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import StepTimeout
from gym_llm.protocols.responses.actions import is_refusal
from gym_llm.records.failures import Failure, failure_of
from gym_llm.types import Request

P = ParamSpec("P")
T = TypeVar("T")

Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info."""


class Driver:
    """Plays an environment's episodes: resets, steps, time limits, truncation, and failures.

    ```python
    driver = Driver(env, StepClock(600.0))
    request, info = await driver.run(driver.reset, seed=0)
    request, reward, terminated, truncated, info = await driver.run(driver.step, action)
    ```

    The protocol, in the order in which a caller meets it:

    1. `reset` and `step` are synchronous and may wait. In an event loop call them through `run`. A caller that wants to
       know at once whether a step has to wait calls `gym_llm.concurrency.run_until_wait`, then `resume`.
    2. Wrappers may truncate or end an episode that the environment would continue. `step` then scores it with `verify`,
       or ends it: after `terminated or truncated` the episode is over.
    3. If a step raises, ask `refuses(error)`: True means that the action was invalid and the episode goes on. Otherwise
       call `end(error)`, after which `teardown` has run, and record `failure(error)`.
    4. `truncate` scores an episode that the caller wants to stop now. `end` gives an episode up without a score.

    Args:
        env: An environment with its wrappers. Nothing else plays it meanwhile.
        clock: Limits the time that `run` and `resume` wait; None for no limit.

    Attributes:
        unscored: The step by which a wrapper ended the episode; `verify` or `teardown` may raise after it.

    Raises:
        TypeError: If the environment is not a `VerifierEnv`.
    """

    __slots__ = ("clock", "env", "unscored", "verifier")

    def __init__(self, env: gym.Env[Any, Any], clock: StepClock | None = None) -> None:
        verifier = env.unwrapped
        if not isinstance(verifier, VerifierEnv):
            raise TypeError(f"Only a gym_llm.VerifierEnv can be played here, got {type(verifier).__name__}.")
        self.env = env
        self.verifier = verifier
        self.clock = clock
        self.unscored: Step | None = None

    # -- synchronous: may wait -------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Request, dict[str, Any]]:
        """Begin an episode; see `VerifierEnv.reset`."""
        verifier = self.verifier
        self.unscored = None
        verifier.episode, verifier.phase = None, "env"  # if reset fails, a record must not show the episode before
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Step:
        """Take a model turn, and score the episode if a wrapper truncates it.

        Raises:
            Exception: If a hook, a tool or a wrapper raises; see `refuses`.
        """
        step = self.env.step(action)
        if (step[2] or step[3]) and not self.verifier.is_over:
            self.unscored = step
            if step[3] and not step[2]:
                return self.score(step)
            self.verifier.end_episode()
        return step

    def score(self, step: Step) -> Step:
        """Score the episode under way, which a wrapper has truncated with this step.

        `verify` scores the items so far, as it does after `max_turns`. The reward passes through every `RewardWrapper`.

        Raises:
            Exception: If `verify` or `teardown` raises. The episode is over.
        """
        observation, reward, terminated, truncated, info = step
        episode = self.verifier.episode
        if terminated or not truncated or episode is None or self.verifier.is_over:
            return step
        info = dict(info)
        before = episode.step_reward  # in this step's reward already, as the wrappers have changed it
        after = before + self.verifier.score_truncated(info)
        wrappers, env = [], self.env
        while isinstance(env, gym.Wrapper):
            wrappers.append(env)
            env = env.env
        for wrapper in reversed(wrappers):
            if isinstance(wrapper, gym.RewardWrapper):
                before, after = float(wrapper.reward(before)), float(wrapper.reward(after))
        return observation, float(reward) - before + after, terminated, truncated, info

    def truncate(self, request: Request) -> Step:
        """Truncate the episode under way between two steps, and score it.

        Args:
            request: The last observation, which is returned.

        Raises:
            Exception: If `verify` or `teardown` raises. The episode is over.
        """
        episode = self.verifier.episode
        if episode is None or self.verifier.is_over:
            raise gym.error.ResetNeeded("No episode is running: call reset() before truncate().")
        episode.step_reward = 0.0  # it was part of its turn's reward
        info = {"task_index": episode.task_index, "turn": episode.turn, "tool_errors": episode.tool_errors}
        return self.score((request, 0.0, False, True, info))

    def end(self, error: BaseException | None = None) -> None:
        """Give up the episode under way, if any; its `teardown` runs. See `VerifierEnv.end_episode`."""
        self.verifier.end_episode(error)

    # -- errors ----------------------------------------------------------------------------------------------------

    def refuses(self, error: BaseException) -> bool:
        """Return whether a step raised because of an invalid action or a missing reset: nothing has happened."""
        return is_refusal(error, self.verifier)

    def failure(self, error: BaseException) -> Failure:
        """Return what masks the episode that ended with this error, and log it once."""
        phase: Any = self.verifier.phase
        return failure_of(error, phase, self.verifier.env_id)

    # -- asynchronous ----------------------------------------------------------------------------------------------

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that may wait, such as `step`, within the time limit.

        Raises:
            StepTimeout: If it waits too long. The episode is over.
            Exception: If the function raises.
        """
        result = run_until_wait(function, *args, **kwargs)
        return await self.resume(result) if isinstance(result, Waiting) else result

    async def resume(self, waiting: Waiting[T]) -> T:
        """Wait for a call of `gym_llm.concurrency.run_until_wait` within the time limit; see `run`."""
        if self.clock is None:
            return await waiting.resume()
        try:
            with self.clock.step(self.verifier):
                return await waiting.resume()
        except StepTimeout as late:
            await drive(self.end, late)  # a hook may have gone on when it was cancelled
            raise


def score_step(env: gym.Env[Any, Any], step: Step) -> Step:
    """Score the episode that a wrapper has truncated with this step of `env`; see `Driver.score`."""
    return Driver(env).score(step)
