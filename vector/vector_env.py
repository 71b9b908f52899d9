"""The base of the vector environments: Gymnasium's lockstep contract, and the asynchronous one of `EnvSlots`.

A subclass says how orders reach the slots and how outcomes come back; everything here is bookkeeping.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from gymnasium import Space
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_llm.concurrency.relaxed_gc import relaxed_gc
from gym_llm.rollouts.env_slots import Reset, StepResult
from gym_llm.vector.infos import batch_infos

Batch = tuple[tuple[Any, ...], npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]
"""Observations (one per environment), rewards, terminations, truncations, infos."""


class BatchedVectorEnv(VectorEnv[tuple[Any, ...], Sequence[Any], npt.NDArray[Any]]):
    """A vector of verifiers, driven in lockstep (`reset`, `step`) or as they are ready (`send`, `recv`).

    Observations and actions are tuples with one entry per environment, because requests cannot be stacked.

    Args:
        num_envs: Number of environments.
        observation_space: One environment's.
        action_space: One environment's.
        metadata: One environment's.
        autoreset_mode: When a finished environment is reset; see `gymnasium.vector.AutoresetMode`. Never by default.
        batch_size: The default number of outcomes that `recv` waits for; None for all that are under way.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        observation_space: Space[Any],
        action_space: Space[Any],
        metadata: Mapping[str, Any],
        autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
        batch_size: int | None = None,
    ) -> None:
        if batch_size is not None and not 1 <= batch_size <= num_envs:
            raise ValueError(f"batch_size is 1 to num_envs={num_envs}, got {batch_size}.")
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.batch_size = batch_size
        self.metadata = {**metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self._observations: list[Any] = [None] * num_envs
        self._busy = np.zeros(num_envs, dtype=np.bool_)
        self._over = np.ones(num_envs, dtype=np.bool_)
        self._fresh = np.ones(num_envs, dtype=np.bool_)  # never reset: autoreset must not hide that

    @cached_property
    def observation_space(self) -> Space[Any]:  # type: ignore[override]
        """All environments' space; made when it is asked for, because Gymnasium copies and seeds one for each."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Space[Any]:  # type: ignore[override]
        """All environments' space; made when it is asked for."""
        return batch_space(self.single_action_space, self.num_envs)

    # -- what a subclass provides ------------------------------------------------------------------------------------

    @abstractmethod
    def _submit(self, slots: Sequence[int], orders: Sequence[Any]) -> None:
        """Hand out actions and `Reset`s."""

    @abstractmethod
    def _collect(self, at_least: int, at_most: int, timeout: float | None) -> list[StepResult]:
        """Wait for outcomes; fewer than `at_least` only when the time (seconds) is over."""

    @abstractmethod
    def _call(self, slots: Sequence[int], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Call a method of these environments, or get the attribute."""

    @abstractmethod
    def _assign(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of every environment."""

    # -- lockstep --------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask.

        Args:
            seed: One per environment; an int stands for seed, seed + 1, ….
            options: `reset_mask` (bool, shape `(num_envs,)`) chooses the environments. `task_index` and `task` are one
                value, or a sequence with one per environment. Other options go to every environment.

        Returns:
            All observations, the untouched ones too, and the infos of the environments that were reset.

        Raises:
            AlreadyPendingCallError: If one of them is busy.
        """
        options = dict(options or {})
        slots = self._masked(options.pop("reset_mask", None))
        with relaxed_gc():
            self._order(slots, self._resets(slots, seed, options))
            outcomes = self._all(len(slots))
            return tuple(self._observations), batch_infos([(o.slot, o.info) for o in outcomes], self.num_envs)

    def step(self, actions: Sequence[Any]) -> Batch:
        """Take one turn in every environment.

        Args:
            actions: One per environment; see `responses/actions.py`. With `AutoresetMode.NEXT_STEP` the entry of
                an environment whose episode is over is not used.

        Returns:
            Observations (tuple), rewards (float64), terminations, truncations (bool), all of length `num_envs`, infos.
            With `AutoresetMode.SAME_STEP` infos has `final_obs` and `final_info` of the episodes that ended.

        Raises:
            InvalidAction: If an action is not a Responses answer.
            ResetNeeded: If an environment's episode is over and the environment was not reset.
            AlreadyPendingCallError: If an environment is busy.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"step takes one action per environment, {self.num_envs}; got {len(actions)}.")
        with relaxed_gc():
            self._order(range(self.num_envs), self._steps(range(self.num_envs), actions))
            return self._batch(self._all(self.num_envs), self.num_envs)

    # -- as they are ready -------------------------------------------------------------------------------------------

    def async_reset(
        self,
        env_ids: Sequence[int] | None = None,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Begin episodes without waiting for them; `recv` returns their first observations.

        Args:
            env_ids: Which environments, None for all.
            seed: As for `reset`: by environment number, not by position in `env_ids`.
            options: As for `reset`, without `reset_mask`.
        """
        slots = self._slots(env_ids)
        self._order(slots, self._resets(slots, seed, dict(options or {})))

    def send(self, actions: Sequence[Any], env_ids: Sequence[int] | None = None) -> None:
        """Hand out actions without waiting for their outcomes: one for each of `env_ids`, None for all environments.

        Raises:
            AlreadyPendingCallError: If one of them is busy.
        """
        slots = self._slots(env_ids)
        if len(actions) != len(slots):
            raise ValueError(f"send takes one action per environment, {len(slots)}; got {len(actions)}.")
        self._order(slots, self._steps(slots, actions))

    def recv(self, min_size: int | None = None, max_size: int | None = None, timeout: float | None = None) -> Batch:
        """Take the results that are ready, oldest first.

        Args:
            min_size: Number of results to wait for, at most those under way; None for `batch_size`.
            max_size: Maximum number of results; None for `min_size` and all others that are ready.
            timeout: Seconds after which fewer results are returned.

        Returns:
            The same as `step`, with one entry per result; `infos["env_id"]` (int64) has the environments' indices.

        Raises:
            RuntimeError: If nothing is under way.
        """
        self._check_open()
        pending = int(self._busy.sum())
        if pending == 0:
            raise RuntimeError("Nothing is under way: call send() or async_reset() before recv().")
        at_most = min(max_size or pending, pending)
        at_least = min(min_size or self.batch_size or pending, at_most)
        with relaxed_gc():
            outcomes = self._settle(self._collect(at_least, at_most, timeout))
            batch = self._batch(outcomes, len(outcomes))
        batch[4]["env_id"] = np.array([outcome.slot for outcome in outcomes], dtype=np.int64)
        return batch

    # -- the rest of Gymnasium's contract ------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment or its wrappers, or get the attribute: one result per environment."""
        self._check_open()
        return self._call(range(self.num_envs), name, args, kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every environment or its wrappers."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment, where its wrappers have it or else of the outermost.

        A list or tuple has one value per environment; anything else is every environment's.
        """
        self._check_open()
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"set_attr takes one value per environment, {self.num_envs}; got {len(values)}.")
        self._assign(name, values)

    @property  # type: ignore[misc] # Gymnasium's own SyncVectorEnv overrides it so, too
    def np_random(self) -> Any:
        """The environments' random generators, a tuple; set them with `reset(seed=...)`."""
        return self.call("np_random")

    @property
    def np_random_seed(self) -> Any:
        """The environments' seeds, a tuple."""
        return self.call("np_random_seed")

    def render(self, env_id: int | None = None) -> tuple[Any, ...] | None:
        """The transcripts of all environments, or of one, in a tuple."""
        self._check_open()
        return self._call(range(self.num_envs) if env_id is None else self._slots([env_id]), "render", (), {})

    def __enter__(self) -> Self:
        """The vector environment itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} is closed.")

    def _slots(self, env_ids: Sequence[int] | None) -> Sequence[int]:
        if env_ids is None:
            return range(self.num_envs)
        slots = [int(env_id) for env_id in env_ids]
        if len(set(slots)) != len(slots) or any(not 0 <= slot < self.num_envs for slot in slots):
            raise ValueError(f"env_ids are different numbers from 0 to {self.num_envs - 1}, got {slots}.")
        return slots

    def _masked(self, mask: Any) -> Sequence[int]:
        if mask is None:
            return range(self.num_envs)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"options['reset_mask'] is a numpy array of bool, got {type(mask).__name__}.")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['reset_mask'] has the shape ({self.num_envs},) and at least one True, got {mask.shape}."
            )
        return [int(slot) for slot in np.flatnonzero(mask)]

    def _resets(
        self, slots: Sequence[int], seed: int | Sequence[int | None] | None, options: dict[str, Any]
    ) -> list[Reset]:
        if seed is not None and not isinstance(seed, (int, np.integer)) and len(seed) != self.num_envs:
            raise ValueError(f"A list of seeds has one per environment, {self.num_envs}; got {len(seed)}.")
        per_env = {name: options.pop(name) for name in ("task_index", "task") if _one_each(options.get(name))}
        for name, values in per_env.items():
            if len(values) != self.num_envs:
                raise ValueError(f"options[{name!r}] has one per environment, {self.num_envs}; got {len(values)}.")
        orders = []
        for slot in slots:
            of_slot = {**options, **{name: values[slot] for name, values in per_env.items()}} or None
            if seed is None:
                orders.append(Reset(None, of_slot))
            else:
                single = int(seed) + slot if isinstance(seed, (int, np.integer)) else seed[slot]
                orders.append(Reset(single, of_slot))
        return orders

    def _steps(self, slots: Sequence[int], actions: Sequence[Any]) -> Sequence[Any]:
        over = self._over[slots] if isinstance(slots, list) else self._over
        if not over.any():
            return actions
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and not self._fresh[list(slots)].any():
            return [Reset() if done else action for done, action in zip(over, actions, strict=True)]
        finished = [slot for slot, done in zip(slots, over, strict=True) if done]
        raise ResetNeeded(f"The episodes of environments {finished[:8]} are over: reset them before the next step.")

    def _order(self, slots: Sequence[int], orders: Sequence[Any]) -> None:
        self._check_open()
        selection: Any = slots if isinstance(slots, list) else slice(None)
        if self._busy[selection].any():
            busy = [slot for slot in slots if self._busy[slot]]
            raise AlreadyPendingCallError(f"Environments {busy[:8]} are busy: recv() their outcomes first.", "send")
        self._submit(slots, orders)
        self._busy[selection] = True

    def _all(self, count: int) -> list[StepResult]:
        return sorted(self._settle(self._collect(count, count, None)), key=itemgetter(0))  # by slot

    def _settle(self, outcomes: list[StepResult]) -> list[StepResult]:
        error: BaseException | None = None
        for outcome in outcomes:
            slot = outcome.slot
            self._busy[slot] = False
            if outcome.error is not None:
                error = error or outcome.error
                continue
            self._fresh[slot] = False
            self._over[slot] = (outcome.terminated or outcome.truncated) and outcome.final is None
            self._observations[slot] = outcome.observation
        if error is not None:
            raise error
        return outcomes

    def _batch(self, outcomes: list[StepResult], size: int) -> Batch:
        rewards = np.array([outcome.reward for outcome in outcomes], dtype=np.float64)
        terminations = np.array([outcome.terminated for outcome in outcomes], dtype=np.bool_)
        truncations = np.array([outcome.truncated for outcome in outcomes], dtype=np.bool_)
        infos = [
            (
                place,
                {**outcome.info, "final_obs": outcome.final[0], "final_info": outcome.final[1]}
                if outcome.final is not None
                else outcome.info,
            )
            for place, outcome in enumerate(outcomes)
        ]
        observations = tuple(outcome.observation for outcome in outcomes)
        return observations, rewards, terminations, truncations, batch_infos(infos, size)


def _one_each(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))
