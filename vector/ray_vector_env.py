"""RayVectorEnv: many environments over many processes and machines.

The protocol between this class (the driver) and its shards:

1. `_submit` groups orders (actions and resets) by shard and sends each shard one batch. The call returns at once, with
   the results that were ready.
2. `_collect` keeps one poll under way per busy shard, waits for whichever call returns first, and passes it to `_take`.
3. `_take` unpacks results in one of three ways. An ordinary result goes to `_ready`. A `StepTimeout` loses its episode
   (`_lose`). `ShardDied` replaces the process (`_handle_death`) and loses the episodes of all its busy slots; resets
   under way are sent again.
4. A lost episode ends truncated and masked (reward NaN), with `info["error"]`. Idle slots of a dead process are in
   `shard.lost`. The new process does not know their episodes, which end in the same way at their next step.
5. With autoreset in the same step a lost slot is reset first. Its ending waits in `_lost_endings`, and is merged into
   the result of the reset.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from time import monotonic
from typing import Any

from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from gym_llm.engines.specs import seeded_options
from gym_llm.errors import ShardDied, StepTimeout
from gym_llm.rollouts.env_slots import Reset, StepResult
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.group_scores import refuse_single_episodes
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray.ray_workers import workers_in
from gym_llm.rollouts.ray.shard_actor import ShardConfig
from gym_llm.rollouts.ray.shard_client import RemoteShard, close_shards, end_shards, pack, start_shards
from gym_llm.rollouts.scheduler import schedule
from gym_llm.rollouts.settings import RolloutSettings, RuntimeEnv
from gym_llm.types import FailureKind, Rollout, Row
from gym_llm.vector.vector_env import BatchedVectorEnv

_DEATHS_IN_A_ROW = 5


class RayVectorEnv(BatchedVectorEnv):
    """`num_envs` verifiers over several processes: the API of `LocalVectorEnv`, the CPUs of a machine or a cluster.

    Each shard is an asynchronous Ray actor with many environments. Actions and observations are sent in batches, and of
    an observation only the new items.

    A shard whose process ends is replaced. For `step` and `send` its episodes are lost: the next step of each of its
    environments returns truncated, with the reward NaN and `info["error"]`. `rollout` plays them again. A step that
    exceeds `step_timeout` loses its own episode in the same way. It loses the shard's others only if the process has to
    be ended to stop it (see `LoopWatchdog`).

    Args:
        env_id: A registered id, or a spec; `num_envs`, `env_kwargs`, `env_wrappers`, `autoreset_mode` and `batch_size`
            are `LocalVectorEnv`'s.
        num_envs: Number of environments.
        num_shards: Number of processes; None for one per free CPU of Ray, at most one per environment. They are spread
            over the machines and reserve next to no CPU, so that several vector environments fit on one.
        tasks: See `VerifierEnv`. Every shard reads them, so a path must be readable on every machine.
        runtime_env: See `RolloutSettings`; a list has one entry for each shard.
        step_timeout: Seconds that a reset or step may take; None for no limit.
        ray_address: See `RolloutSettings`; not looked at when Ray is connected already.

    Raises:
        RayUnavailable: If Ray cannot be used. Every method raises it if Ray ends later.
        Exception: If making an environment raises.
    """

    def __init__(
        self,
        env_id: str | EnvSpec,
        num_envs: int,
        *,
        num_shards: int | None = None,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        env_wrappers: Sequence[Wrap] = (),
        runtime_env: RuntimeEnv | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
        batch_size: int | None = None,
        step_timeout: float | None = 600.0,
        ray_address: str | None = None,
    ) -> None:
        if step_timeout is not None and not step_timeout > 0:
            raise ValueError(f"step_timeout is a positive number of seconds, or None; got {step_timeout}.")
        if (env_kwargs or {}).get("sampler") is not None:
            raise ValueError("Environments in other processes cannot share a sampler: draw tasks and reset with them.")
        recipe = ShardConfig.of(
            env_id,
            num_envs,
            tasks=tasks,
            env_kwargs=env_kwargs,
            env_wrappers=tuple(env_wrappers),
            same_step_reset=AutoresetMode(autoreset_mode) is AutoresetMode.SAME_STEP,
            step_timeout=step_timeout,
        )
        self._shards = start_shards(recipe, num_shards, runtime_env=runtime_env, ray_address=ray_address)
        self._shard_of = [shard for shard in self._shards for _ in range(shard.num_envs)]
        self._finalizer = weakref.finalize(self, end_shards, self._shards)
        self._ready: deque[StepResult] = deque()
        self._lost_endings: dict[int, tuple[Any, dict[str, Any]]] = {}  # of slots that are being reset; see the module
        description = self._shards[0].description
        super().__init__(
            num_envs,
            observation_space=description["observation_space"],
            action_space=description["action_space"],
            metadata=description["metadata"],
            autoreset_mode=autoreset_mode,
            batch_size=batch_size,
        )
        self.render_mode = description["render_mode"]
        self._env_id = env_id if isinstance(env_id, str) else env_id.id
        self._scores_groups = description["scores_groups"]

    @property
    def num_shards(self) -> int:
        """Number of processes."""
        return len(self._shards)

    async def rollout(
        self,
        engine: str,
        jobs: Iterable[Job],
        settings: RolloutSettings | None = None,
        *,
        engine_options: dict[str, Any] | None = None,
    ) -> AsyncGenerator[Rollout, None]:
        """Play whole episodes inside the shards, each with an engine client of its own.

        Args:
            engine: A spec; see `gym_llm.make_engine`. Of `vllm:MODEL` there is one, in a process of its own, that all
                shards ask; other engines every shard makes for itself.
            jobs: The episodes, taken as they are needed.
            settings: `seed`, `sampling` and `on_waiting` are used; this object has its own values of the others.
            engine_options: Arguments of the engine; one whose sampling always has a seed gets the settings' own.

        Yields:
            As `LocalVectorEnv.rollout`: exactly one record for each job, whatever dies.

        Raises:
            EngineUnavailable: If the engine cannot be used.
        """
        self._check_open()
        refuse_single_episodes(self._env_id, self._scores_groups)
        settings = settings or RolloutSettings()
        options = seeded_options(engine, engine_options, settings.seed)
        async with (
            workers_in(self._shards, engine, options, settings) as workers,
            aclosing(schedule(workers, jobs, settings.on_waiting)) as records,
        ):
            async for record in records:
                yield record

    def close_extras(self, **_: Any) -> None:
        """Close every environment and end the shards' processes. Ray itself stays connected."""
        if self._finalizer.alive:
            close_shards(self._shards)
        self._finalizer()

    # -- orders and outcomes -------------------------------------------------------------------------------------------

    def _submit(self, slots: Sequence[int], orders: Sequence[Any]) -> None:
        by_shard = self._by_shard(slots, orders)
        packed = {
            shard: pack(*orders) for shard, orders in by_shard.items()
        }  # it may raise: before anything is handed out
        for shard, (local, orders) in by_shard.items():
            if not shard.lost:
                shard.submit(local, orders, packed[shard])
                continue
            local, orders = self._without_lost(shard, local, orders)
            if local:
                shard.submit(local, orders)

    def _without_lost(self, shard: RemoteShard, local: list[int], orders: list[Any]) -> tuple[list[int], list[Any]]:
        """Return the orders that the shard's new process can carry out, and end the episodes of the others."""
        feasible: tuple[list[int], list[Any]] = ([], [])
        gone: list[int] = []
        for slot, order in zip(local, orders, strict=True):
            if slot in shard.lost and not isinstance(order, Reset):
                gone.append(slot)
            else:
                feasible[0].append(slot)
                feasible[1].append(order)
        shard.lost.difference_update(local)
        self._lose(shard, gone, "its shard's process ended")
        return feasible

    def _collect(self, at_least: int, at_most: int, timeout: float | None) -> list[StepResult]:
        deadline = None if timeout is None else monotonic() + timeout
        while (missing := at_least - len(self._ready)) > 0:
            everything = missing >= sum(len(shard.busy) for shard in self._shards)
            for shard in self._shards:
                shard.poll(len(shard.busy) if everything else 1)
            shard_of = {ref: shard for shard in self._shards for ref in shard.refs}
            seconds_left = None if deadline is None else max(0.0, deadline - monotonic())
            done = self._shards[0].watch.wait(list(shard_of), seconds_left)
            if not done:
                break
            self._take(shard_of[done[0]], done[0])
        return [self._ready.popleft() for _ in range(min(at_most, len(self._ready)))]

    def _take(self, shard: RemoteShard, ref: Any) -> None:
        try:
            outcomes = shard.outcomes(ref)
        except ShardDied as death:
            self._handle_death(shard, str(death))
            return
        late = [outcome.slot - shard.first for outcome in outcomes if isinstance(outcome.error, StepTimeout)]
        self._lose(shard, late, str(StepTimeout()), StepTimeout.failure_kind)
        for outcome in outcomes:
            if isinstance(outcome.error, StepTimeout):
                continue
            if outcome.slot in self._lost_endings and outcome.error is None:
                final = self._lost_endings.pop(outcome.slot)
                info = {**outcome.info, **final[1]}
                self._ready.append(outcome._replace(reward=math.nan, truncated=True, info=info, final=final))
            else:
                self._ready.append(outcome)

    def _handle_death(self, shard: RemoteShard, cause: str) -> None:
        """Replace a dead shard, send its resets again, and end the other episodes under way."""
        under_way = shard.replace()
        if shard.died > _DEATHS_IN_A_ROW:
            raise ShardDied(f"A shard's process ended {shard.died} times in a row without doing anything: {cause}")
        shard.lost.difference_update(under_way)
        resets = [slot for slot, order in under_way.items() if isinstance(order, Reset)]
        if resets:
            shard.submit(resets, [under_way[slot] for slot in resets])
        self._lose(shard, [slot for slot in under_way if slot not in shard.busy], cause)

    def _lose(
        self, shard: RemoteShard, slots: list[int], cause: str, kind: FailureKind = ShardDied.failure_kind
    ) -> None:
        """End lost episodes: at once, or with autoreset in the same step as soon as their slots are reset."""
        error = f"The episode was lost: {cause.rstrip('.')}."
        info = {"outcome": "masked", "failure_kind": kind, "error": error}
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        for number in (shard.first + slot for slot in slots):
            observation = self._observations[number]
            if same_step:
                self._lost_endings.setdefault(number, (observation, info))
            else:
                self._ready.append(StepResult(number, observation, math.nan, truncated=True, info=info))
        if same_step and slots:
            shard.submit(slots, [Reset()] * len(slots))

    def _call(self, slots: Sequence[int], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        results: dict[int, Any] = {}
        calls = [
            (shard, local, shard.actor.call.remote(local, name, args, kwargs))
            for shard, (local, _) in self._by_shard(slots, slots).items()
        ]
        for shard, local, ref in calls:
            numbers = [shard.first + slot for slot in local]
            results.update(
                zip(numbers, self._call_until_alive(shard, ref, "call", local, name, args, kwargs), strict=True)
            )
        return tuple(results[slot] for slot in slots)

    def _assign(self, name: str, values: Sequence[Any]) -> None:
        for shard, (local, shard_values) in self._by_shard(range(self.num_envs), values).items():
            ref = shard.actor.assign.remote(local, name, shard_values)
            self._call_until_alive(shard, ref, "assign", local, name, shard_values)

    def _call_until_alive(self, shard: RemoteShard, ref: Any, method: str, *args: Any) -> Any:
        """Return the result of a call, which is repeated in a new process if the shard dies.

        Raises:
            ShardDied: If it dies again and again.
        """
        while True:
            try:
                result = shard.get(ref)
            except ShardDied as death:
                self._handle_death(shard, str(death))
                ref = getattr(shard.actor, method).remote(*args)
            else:
                shard.died = 0
                return result

    def _by_shard(self, slots: Sequence[int], values: Sequence[Any]) -> dict[RemoteShard, tuple[list[int], list[Any]]]:
        """Return the slots, numbered as in their shard, and the values of each shard."""
        if len(slots) == self.num_envs and isinstance(slots, range):
            return {
                shard: (list(range(shard.num_envs)), list(values[shard.first : shard.first + shard.num_envs]))
                for shard in self._shards
            }
        by_shard: dict[RemoteShard, tuple[list[int], list[Any]]] = {}
        for slot, value in zip(slots, values, strict=True):
            shard = self._shard_of[slot]
            local, shard_values = by_shard.setdefault(shard, ([], []))
            local.append(slot - shard.first)
            shard_values.append(value)
        return by_shard
