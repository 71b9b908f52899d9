"""RayVectorEnv: many environments over many processes and machines."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import accumulate, cycle, repeat
from time import monotonic
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from gym_llm.data.reading import absolute_source
from gym_llm.types import Rollout, Row
from gym_llm.vector.actor import ShardRecipe
from gym_llm.vector.batched import BatchedVectorEnv
from gym_llm.vector.dispatch import ShardDied, dispatch
from gym_llm.vector.factory import Wrap
from gym_llm.vector.plan import Job
from gym_llm.vector.ray_session import connect, nodes
from gym_llm.vector.remote import RemotePlayer, RemoteShard, pack
from gym_llm.vector.shard import Outcome, Reset
from gym_llm.vector.shared_engine import engine_for_shards
from gym_llm.vector.step_timeout import StepTimeout
from gym_llm.vector.watching import watching

_CLOSING_SECONDS = 5.0
_DEATHS_IN_A_ROW = 5


class RayVectorEnv(BatchedVectorEnv):
    """`num_envs` verifiers over several processes: the API of `LocalVectorEnv`, the CPUs of a machine or a cluster.

    Each shard is one asynchronous Ray actor that holds many environments; actions and observations cross in batches,
    and of an observation only what is new.

    A shard whose process ends is replaced. The episodes in it are lost for `step` and `send`: each of its environments
    comes back truncated, with `info["error"]`, from its next step. `rollout` plays them again. A step that exceeds
    `step_timeout` loses its own episode in the same way, and its shard's others only if nothing but ending the process
    can stop it (see `Watchdog`).

    Args:
        env_id: A registered id, or a spec.
        num_envs: How many environments there are.
        num_shards: How many processes; None for one per CPU that Ray has free, at most one per environment. They are
            spread over the machines and reserve next to no CPU, so that several vector environments fit on one.
        tasks: See `VerifierEnv`; every shard reads them, so a path has to be readable on every machine.
        env_kwargs: Further arguments of each environment.
        env_wrappers: What each is wrapped with, the first one innermost.
        runtime_env: Ray's `runtime_env` of the shards, e.g. `{"pip": ["math-verify==0.7.0"]}`, or a list: one for each
            shard, None for this process's packages; it then says how many shards there are.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.
        batch_size: How many outcomes `recv` waits for if it is not told.
        step_timeout: Seconds that a reset or step may take; None for no limit.
        ray_address: A cluster's address; None for a Ray of this machine's own. Not looked at when Ray is connected
            already.

    Raises:
        RayUnavailable: If Ray cannot be used.
        Exception: What making an environment raises.
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
        runtime_env: dict[str, Any] | Sequence[dict[str, Any] | None] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
        batch_size: int | None = None,
        step_timeout: float | None = 600.0,
        ray_address: str | None = None,
    ) -> None:
        if num_envs < 1 or (num_shards is not None and num_shards < 1):
            raise ValueError(f"num_envs and num_shards are 1 or more, got {num_envs} and {num_shards}.")
        if step_timeout is not None and not step_timeout > 0:
            raise ValueError(f"step_timeout is a positive number of seconds, or None; got {step_timeout}.")
        if isinstance(runtime_env, Sequence):
            if num_shards not in (None, len(runtime_env)) or not 1 <= len(runtime_env) <= num_envs:
                raise ValueError(
                    "A list of runtime_env has one for each shard, and every shard an environment; got "
                    f"{len(runtime_env)} for num_shards={num_shards} and num_envs={num_envs}."
                )
            num_shards = len(runtime_env)
        self._ray = ray = connect(ray_address)
        shards = min(num_envs, num_shards or max(1, int(ray.available_resources().get("CPU", 1))))
        sizes = [num_envs // shards + (n < num_envs % shards) for n in range(shards)]
        spec = env_id if isinstance(env_id, EnvSpec) else gym.spec(env_id)
        tasks = absolute_source(tasks) if isinstance(tasks, str) else tasks  # the shards run in folders of Ray's
        same_step = AutoresetMode(autoreset_mode) is AutoresetMode.SAME_STEP
        self._shards = [
            RemoteShard(
                ray,
                ShardRecipe(spec, size, tasks, env_kwargs, tuple(env_wrappers), same_step, step_timeout),
                first,
                node,
                packages,
            )
            for size, first, node, packages in zip(
                sizes,
                accumulate(sizes, initial=0),
                cycle(nodes(ray)),
                runtime_env if isinstance(runtime_env, Sequence) else repeat(runtime_env),
                strict=False,
            )
        ]
        self._shard_of = [shard for shard in self._shards for _ in range(shard.num_envs)]
        self._finalizer = weakref.finalize(self, _end, self._shards)
        self._ready: deque[Outcome] = deque()
        self._cut: dict[int, tuple[Any, dict[str, Any]]] = {}  # lost episodes whose slots are being reset at once
        described = self._describe()
        super().__init__(
            num_envs,
            observation_space=described["observation_space"],
            action_space=described["action_space"],
            metadata=described["metadata"],
            autoreset_mode=autoreset_mode,
            batch_size=batch_size,
        )
        self.render_mode = described["render_mode"]

    @property
    def num_shards(self) -> int:
        """How many processes there are."""
        return len(self._shards)

    async def rollout(
        self,
        engine: str,
        jobs: Iterable[Job],
        *,
        engine_options: dict[str, Any] | None = None,
        seed: int = 0,
        sampling: dict[str, Any] | None = None,
        on_waiting: Callable[[dict[str, int]], None] | None = None,
    ) -> AsyncGenerator[Rollout, None]:
        """Play whole episodes inside the shards, each with an engine client of its own.

        Args:
            engine: A spec; see `gym_llm.make_engine`. Of `vllm:MODEL` there is one, in a process of its own, that all
                shards ask; other engines every shard makes for itself.
            jobs: The episodes, taken as they are needed.
            engine_options: Arguments of the engine.
            seed: The run's seed.
            sampling: Request fields to set over the tasks' own.
            on_waiting: Called once a second with how many episodes wait for what; see `Player.waiting`.

        Yields:
            Exactly one record for each job, in the order of finishing. While nobody takes them, no further episode is
            started. Not to be mixed with `step` or `send`.

        Raises:
            EngineUnavailable: If the engine cannot be used.
        """
        self._check_open()
        async with engine_for_shards(engine, engine_options) as (spec, options):
            players = [RemotePlayer(shard, (spec, options, seed, sampling)) for shard in self._shards]
            try:
                await asyncio.gather(*(player.start() for player in players))
                async with (
                    watching(partial(_all_waiting, players), on_waiting),
                    aclosing(dispatch(players, jobs)) as records,
                ):
                    async for record in records:
                        yield record
            finally:
                await asyncio.gather(*(player.aclose() for player in players), return_exceptions=True)

    def close_extras(self, **_: Any) -> None:
        """Close every environment and end the shards' processes. Ray itself stays connected."""
        if self._finalizer.alive and self._ray.is_initialized():
            closing = [shard.actor.close.remote() for shard in self._shards]
            self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSING_SECONDS)
        self._finalizer()

    # -- orders and outcomes -------------------------------------------------------------------------------------------

    def _describe(self) -> dict[str, Any]:
        """What the environments are like; every shard is asked, so that whatever is wrong with one shows now."""
        try:
            asked = [(shard, shard.actor.describe.remote()) for shard in self._shards]
            descriptions = [shard.get(ref) for shard, ref in asked]
        except BaseException:
            self._finalizer()
            raise
        return descriptions[0]

    def _submit(self, slots: Sequence[int], orders: Sequence[Any]) -> None:
        given = self._by_shard(slots, orders)
        packed = {
            shard: pack(*orders) for shard, orders in given.items()
        }  # it may raise: before anything is handed out
        for shard, (local, orders) in given.items():
            if not shard.lost:
                shard.submit(local, orders, packed[shard])
                continue
            local, orders = self._without_lost(shard, local, orders)
            if local:
                shard.submit(local, orders)

    def _without_lost(self, shard: RemoteShard, local: list[int], orders: list[Any]) -> tuple[list[int], list[Any]]:
        """The orders that the shard's new process can carry out."""
        kept: tuple[list[int], list[Any]] = ([], [])
        gone: list[int] = []
        for slot, order in zip(local, orders, strict=True):
            if slot in shard.lost and not isinstance(order, Reset):
                gone.append(slot)
            else:
                kept[0].append(slot)
                kept[1].append(order)
        shard.lost.difference_update(local)
        self._cut_short(shard, gone, "its shard's process ended")
        return kept

    def _collect(self, at_least: int, at_most: int, timeout: float | None) -> list[Outcome]:
        deadline = None if timeout is None else monotonic() + timeout
        while (missing := at_least - len(self._ready)) > 0:
            everything = missing >= sum(len(shard.busy) for shard in self._shards)
            for shard in self._shards:
                shard.poll(len(shard.busy) if everything else 1)
            shard_of = {ref: shard for shard in self._shards for ref in shard.refs}
            left = None if deadline is None else max(0.0, deadline - monotonic())
            done, _ = self._ray.wait(list(shard_of), num_returns=1, timeout=left)
            if not done:
                break
            self._take(shard_of[done[0]], done[0])
        return [self._ready.popleft() for _ in range(min(at_most, len(self._ready)))]

    def _take(self, shard: RemoteShard, ref: Any) -> None:
        try:
            outcomes = shard.outcomes(ref)
        except ShardDied as death:
            self._bury(shard, str(death))
            return
        late = [outcome.slot - shard.first for outcome in outcomes if isinstance(outcome.error, StepTimeout)]
        self._cut_short(shard, late, str(StepTimeout()))
        for outcome in outcomes:
            if isinstance(outcome.error, StepTimeout):
                continue
            if outcome.slot in self._cut and outcome.error is None:
                final = self._cut.pop(outcome.slot)
                info = {**outcome.info, **final[1]}
                self._ready.append(outcome._replace(truncated=True, info=info, final=final))
            else:
                self._ready.append(outcome)

    def _bury(self, shard: RemoteShard, cause: str) -> None:
        """Replace a shard; its slots that were being reset are so in the new one."""
        under_way = shard.replace()
        if shard.died > _DEATHS_IN_A_ROW:
            raise RuntimeError(f"A shard's process ended {shard.died} times in a row without doing anything: {cause}")
        shard.lost.difference_update(under_way)
        resets = [slot for slot, order in under_way.items() if isinstance(order, Reset)]
        if resets:
            shard.submit(resets, [under_way[slot] for slot in resets])
        self._cut_short(shard, [slot for slot in under_way if slot not in shard.busy], cause)

    def _cut_short(self, shard: RemoteShard, slots: list[int], cause: str) -> None:
        """End episodes that are gone: now, or, with autoreset in the same step, as soon as their slots are reset."""
        info = {"error": f"The episode was lost: {cause.rstrip('.')}."}
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        for number in (shard.first + slot for slot in slots):
            observation = self._observations[number]
            if same_step:
                self._cut.setdefault(number, (observation, info))
            else:
                self._ready.append(Outcome(number, observation, truncated=True, info=info))
        if same_step and slots:
            shard.submit(slots, [Reset()] * len(slots))

    def _call(self, slots: Sequence[int], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        results: dict[int, Any] = {}
        asked = [
            (shard, local, shard.actor.call.remote(local, name, args, kwargs))
            for shard, (local, _) in self._by_shard(slots, slots).items()
        ]
        for shard, local, ref in asked:
            numbers = [shard.first + slot for slot in local]
            results.update(zip(numbers, self._alive(shard, ref, "call", local, name, args, kwargs), strict=True))
        return tuple(results[slot] for slot in slots)

    def _assign(self, name: str, values: Sequence[Any]) -> None:
        for shard, (local, given) in self._by_shard(range(self.num_envs), values).items():
            self._alive(shard, shard.actor.assign.remote(local, name, given), "assign", local, name, given)

    def _alive(self, shard: RemoteShard, ref: Any, method: str, *args: Any) -> Any:
        """The result of a call; once more in a new process whenever the shard has died, which a dying machine repeats.

        Raises:
            RuntimeError: If it dies again and again.
        """
        while True:
            try:
                result = shard.get(ref)
            except ShardDied as death:
                self._bury(shard, str(death))
                ref = getattr(shard.actor, method).remote(*args)
            else:
                shard.died = 0
                return result

    def _by_shard(self, slots: Sequence[int], values: Sequence[Any]) -> dict[RemoteShard, tuple[list[int], list[Any]]]:
        """Slots, numbered as in their shard, and values."""
        if len(slots) == self.num_envs and isinstance(slots, range):
            return {
                shard: (list(range(shard.num_envs)), list(values[shard.first : shard.first + shard.num_envs]))
                for shard in self._shards
            }
        found: dict[RemoteShard, tuple[list[int], list[Any]]] = {}
        for slot, value in zip(slots, values, strict=True):
            shard = self._shard_of[slot]
            local, given = found.setdefault(shard, ([], []))
            local.append(slot - shard.first)
            given.append(value)
        return found


def _end(shards: list[RemoteShard]) -> None:
    for shard in shards:
        shard.end()


async def _all_waiting(players: list[RemotePlayer]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in await asyncio.gather(*(player.waiting() for player in players)):
        total.update(count)
    return total
