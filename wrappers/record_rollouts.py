"""RecordRollouts: writes the environment's episodes into a file."""

from __future__ import annotations

import os
from copy import copy
from time import perf_counter
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from gym_llm.concurrency import is_cancellation
from gym_llm.core.driver import Driver
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.records.failures import Failure
from gym_llm.records.record import make_record
from gym_llm.records.shared_rollout_file import SharedRolloutFile
from gym_llm.types import TurnTiming
from gym_llm.utils.secrets import register_env_secrets, register_secrets


class RecordRollouts(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Appends one JSON line, a `gym_llm.types.Rollout`, to a file when an episode ends.

    The file may have rollouts already, and any number of environments and processes may append to it
    (`gymnasium.make_vec` with this among its wrappers). `repeat_index` counts the earlier records of the same task in
    the file. An episode whose setup or step raises is recorded as masked, one that is given up before its end is not.
    One that a wrapper inside of this one truncates is scored: `step` returns what `verify` gives it.
    `timing.engine` is the time between `step` calls, which is the policy's.

    What is recorded is what is seen here, so this wrapper goes around the ones that end episodes or change rewards.

    Args:
        env: The environment to wrap; a `VerifierEnv` at its core.
        path: The JSON Lines file; made, with its folders, if it is missing.

    Raises:
        DataError: If the file has lines that are not rollouts.
        OSError: If the file cannot be opened for writing.
        TypeError: If there is no `VerifierEnv` inside.

    Example:
        >>> import os, tempfile
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.data import read_jsonl
        >>> from gym_llm.wrappers import RecordRollouts
        >>> row = {"responses_create_params": {"input": "2+2?"}, "expected_answer": "4"}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "rollouts.jsonl")
        ...     env = RecordRollouts(gym.make("gym_llm/FollowUp-v0", tasks=[row]), path)
        ...     for _ in range(2):
        ...         observation, info = env.reset(seed=0)
        ...         result = env.step([{"type": "message", "role": "assistant", "content": "It is 4."}])
        ...     [(record["rollout_id"]["repeat_index"], record["reward"]) for _, record in read_jsonl(path)]
        [(0, 1.0), (1, 1.0)]
    """

    def __init__(self, env: gym.Env[Any, Any], path: str | os.PathLike[str]) -> None:
        if not isinstance(env.unwrapped, VerifierEnv):
            raise TypeError(f"RecordRollouts records gym_llm.VerifierEnv episodes, not {type(env.unwrapped).__name__}.")
        register_env_secrets()
        register_secrets(env.spec.kwargs if env.spec else None)
        path = os.fspath(path)
        SharedRolloutFile.at(path).prepare()
        RecordConstructorArgs.__init__(self, path=path)
        gym.Wrapper.__init__(self, env)
        self._driver = Driver(env)
        self.path = path
        self._running = False
        self._started = self._answered = self._engine_seconds = 0.0
        self._turn_rewards: list[float] = []
        self._turn_timing: list[TurnTiming] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._running = True
        self._started = perf_counter()
        self._engine_seconds = 0.0
        self._turn_rewards, self._turn_timing = [], []
        try:
            result = self._driver.reset(seed=seed, options=options)
        except BaseException as error:
            self._fail(error)
            raise
        self._answered = perf_counter()
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a turn; write the record if it was the last."""
        start = perf_counter()
        engine_seconds = start - self._answered
        try:
            result = self._driver.step(action)
        except BaseException as error:
            self._fail(error, {"engine": engine_seconds, "env": perf_counter() - start})
            raise
        _, reward, terminated, truncated, info = result
        self._engine_seconds += engine_seconds
        self._turn_rewards.append(float(reward))
        self._turn_timing.append({"engine": engine_seconds, "env": perf_counter() - start})
        if (terminated or truncated) and self._running:
            self._running = False
            self._write(terminated, truncated, info)
        self._answered = perf_counter()
        return result

    def fork_onto(self, env: gym.Env[Any, Any]) -> RecordRollouts:
        """Return this wrapper for a fork of its environment; the fork's record has all turns."""
        made = copy(self)
        made.env, made._driver = env, Driver(env)
        made._turn_rewards, made._turn_timing = self._turn_rewards.copy(), list(map(copy, self._turn_timing))
        return made

    def _fail(self, error: BaseException, turn: TurnTiming | None = None) -> None:
        """Write down that the episode is masked; unless it goes on, or is given up."""
        if not self._running or self._driver.refuses(error) or is_cancellation(error):
            return
        self._running = False
        if turn is not None:
            self._turn_timing.append(turn)
        if (episode := self._driver.verifier.episode) is not None:
            index = {"task_index": episode.task_index, "turn": episode.turn}
            self._write(False, False, index, self._driver.failure(error))

    def _write(self, terminated: bool, truncated: bool, info: dict[str, Any], failure: Failure | None = None) -> None:
        seconds = perf_counter() - self._started
        timing = {"total": seconds, "engine": self._engine_seconds, "turns": len(self._turn_timing)}
        SharedRolloutFile.at(self.path).append(
            info["task_index"],
            lambda rollout_id: make_record(
                self,
                rollout_id=rollout_id,
                turn_rewards=self._turn_rewards,
                terminated=terminated,
                truncated=truncated,
                failure=failure,
                info=info,
                timing=timing,
                turn_timing=self._turn_timing,
            ),
        )
