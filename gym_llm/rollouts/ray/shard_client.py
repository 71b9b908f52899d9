"""Clients of shards in other processes; `gym_llm.rollouts.ray.shard_actor` describes the protocol."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, cycle, repeat
from typing import Any

from gym_llm.errors import RayUnavailable, ShardDied
from gym_llm.rollouts.env_slots import StepResult
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray.codec import Receiver, first_line
from gym_llm.rollouts.ray.connection import connect, nodes, watch
from gym_llm.rollouts.ray.shard_actor import ShardActor, ShardConfig
from gym_llm.rollouts.settings import RuntimeEnv
from gym_llm.types import Rollout
from gym_llm.utils.secrets import without_secrets

_ATTEMPTS = 5
_CLOSING_SECONDS = 35.0  # a little more than a `teardown` may take

_HARDLY_ANY = 0.001  # CPUs reserved by a shard: with none, Ray does not look at the machine that was asked for


class RemoteShard:
    """A client of a `ShardActor`. Slots are numbered from 0 in here; `first` is slot 0's number outside.

    The protocol:

    - Every open call is in `refs` until `outcomes` has read its reply. An outcome comes with exactly one reply, the
      first one to return. So a caller that waits for outcomes waits for any ref.
    - `_polled_for` is the number of outcomes that the newest call waits for. It is None if no call is open, or if the
      newest call submits orders. Such a call returns at once, so no poll is needed.
    - A poll that waits for more outcomes than are wanted now is released by the next poll.
    - A death fails every ref. `replace` drops the refs with their process, and returns the orders that were open.

    A shard reserves no CPU: several vector environments share a machine, and a dead shard can always be replaced.

    Attributes:
        busy: The slots that have an order, and the order.
        lost: The slots whose episode ended with an earlier process.
        refs: Open calls.
        died: Number of processes that have ended since the last outcome.
        description: The result of `ShardActor.describe`, as `start_shards` received it.
        watch: The thread that watches Ray. If Ray ends, every method that waits raises RayUnavailable.
    """

    def __init__(
        self, ray: Any, recipe: ShardConfig, first: int, node: Any, runtime_env: dict[str, Any] | None
    ) -> None:
        self.num_envs = recipe.num_envs
        self.env_id = recipe.spec.id
        self.first = first
        self.busy: dict[int, Any] = {}
        self.lost: set[int] = set()
        self.refs: list[Any] = []
        self.died = 0
        self.description: dict[str, Any] = {}
        self.ray = ray
        self.watch = watch()
        self._recipe = recipe
        self._options: dict[str, Any] = {"scheduling_strategy": node, "num_cpus": _HARDLY_ANY, "max_restarts": 0}
        if runtime_env is not None:
            self._options["runtime_env"], secrets = without_secrets(runtime_env)
            self._recipe = replace(recipe, environment=secrets)
        errors = ray.exceptions
        self._deadly = (
            *(errors.RayActorError, errors.RaySystemError, errors.WorkerCrashedError),
            *(errors.OutOfMemoryError, errors.NodeDiedError, errors.ObjectLostError),
        )
        self._polled_for: int | None = None
        self._receivers = [Receiver() for _ in range(recipe.num_envs)]
        self.actor = self._start()

    def _start(self) -> Any:
        return self.ray.remote(ShardActor).options(**self._options).remote(self._recipe)

    def get(self, ref: Any) -> Any:
        """A call's result, or what it raised; ShardDied if the process did not live to give it."""
        with self._own_errors():
            return self.watch.get(ref)

    async def ask(self, method: str, *args: Any) -> Any:
        """Call a method of the actor; as `get`."""
        self.watch.check()
        with self._own_errors():
            return await self.watch.result(getattr(self.actor, method).remote(*args))

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._deadly as death:
            raise ShardDied(first_line(death)) from None

    def submit(self, slots: list[int], orders: list[Any], batch: bytes | None = None) -> None:
        """Hand out orders, and take along what is ready; `batch` is the same as `pack` gives it."""
        batch = batch or pack(slots, orders)
        self.watch.check()
        self.busy.update(zip(slots, orders, strict=True))
        self._polled_for = None
        self.refs.append(self.actor.submit_and_poll.remote(batch, 0))

    def poll(self, at_least: int) -> None:
        """Ask for results, unless no slot is busy or a poll for as few is under way."""
        if self.busy and (not self.refs or (self._polled_for is not None and self._polled_for > at_least)):
            self._polled_for = at_least
            self.refs.append(self.actor.submit_and_poll.remote(pack([], []), at_least))

    def outcomes(self, ref: Any) -> list[StepResult]:
        """The outcomes that an exchange has brought, as `get` gives them; slots are numbered as outside."""
        self.refs.remove(ref)
        packed = pickle.loads(self.get(ref))
        if not self.refs:
            self._polled_for = None
        outcomes = []
        first, receivers, busy = self.first, self._receivers, self.busy
        for slot, observation, reward, terminated, truncated, info, final, error in packed:
            del busy[slot]
            if error is not None:
                outcomes.append(StepResult(first + slot, error=error))
                continue
            unpack = receivers[slot].unpack
            if final is not None:
                final = unpack(final[0]), final[1]
            outcomes.append(StepResult(first + slot, unpack(observation), reward, terminated, truncated, info, final))
        if outcomes:
            self.died = 0
        return outcomes

    def replace(self) -> dict[int, Any]:
        """Put another process in the place of one that has ended, and say which slots were busy with what."""
        self.watch.check()
        self.ray.kill(self.actor)
        under_way, self.busy = self.busy, {}
        self.refs.clear()
        self.died += 1
        self._polled_for = None
        self.lost = set(range(self.num_envs))
        self._receivers = [Receiver() for _ in range(self.num_envs)]
        self.actor = self._start()
        return under_way


class RemoteWorker:
    """The `EpisodeWorker` of a shard; `start` has the arguments of `ShardActor.start_rollout`."""

    def __init__(self, shard: RemoteShard, start: tuple[Any, ...]) -> None:
        self.env_id, self.num_envs = shard.env_id, shard.num_envs
        self._shard, self._start_arguments = shard, start
        self._unrecorded: set[Job] = set()
        self._recorded: list[Job] = []

    async def start(self) -> None:
        """Get ready to play; raises what the engine or the environment did, ShardDied if it ends again and again."""
        for _ in range(_ATTEMPTS):
            try:
                return await self._shard.ask("start_rollout", *self._start_arguments)
            except ShardDied as death:
                cause = death
                self._shard.replace()
        raise ShardDied(f"A shard's process ended {_ATTEMPTS} times while it was started: {cause}")

    async def submit_and_poll(self, jobs: Sequence[Job]) -> list[tuple[Job, Rollout]]:
        """See `AnyWorker.submit_and_poll`."""
        recorded, self._recorded = self._recorded, []
        finished: list[tuple[Job, Rollout]] = pickle.loads(
            await self._shard.ask("play", pickle.dumps((list(jobs), recorded)))
        )
        if self._start_arguments[2].durable:
            self._unrecorded.update(job for job, _ in finished)
        return finished

    def recorded(self, job: Job) -> None:
        """See `EpisodeWorker.recorded`; the process learns of it with its next jobs."""
        if job in self._unrecorded:
            self._unrecorded.discard(job)
            self._recorded.append(job)

    def release(self) -> None:
        """See `EpisodeWorker.release`; a process that has ended has released its call."""
        if self._shard.watch.is_here():
            self._shard.actor.release.remote()

    async def restart(self) -> None:
        """Put a new process in the dead one's place."""
        self._shard.replace()
        await self.start()

    async def waiting(self) -> dict[str, int]:
        """See `EpisodeWorker.waiting`; nothing from a process that has ended."""
        try:
            return await self._shard.ask("waiting")
        except ShardDied:
            return {}

    async def aclose(self) -> None:
        """Cancel what is under way."""
        try:
            await self._shard.ask("end_rollout")
        except (ShardDied, RayUnavailable):
            pass  # so nothing is under way


def start_shards(
    recipe: ShardConfig, num_shards: int | None, *, runtime_env: RuntimeEnv | None, ray_address: str | None
) -> list[RemoteShard]:
    """Start processes and make an environment in each, so that whatever is wrong with one shows now.

    They are spread over the machines and reserve next to no CPU, so that several vector environments fit on one.
    `recipe` is what all of them together are made of; for the rest see `RayVectorEnv`.

    Raises:
        RayUnavailable: If Ray cannot be used.
        ValueError: If the numbers do not fit together.
        Exception: What making an environment raises.
    """
    num_envs = recipe.num_envs
    if num_envs < 1 or (num_shards is not None and num_shards < 1):
        raise ValueError(f"num_envs and num_shards are 1 or more, got {num_envs} and {num_shards}.")
    if isinstance(runtime_env, Sequence):
        if num_shards not in (None, len(runtime_env)) or not 1 <= len(runtime_env) <= num_envs:
            raise ValueError(
                f"{len(runtime_env)} runtime_envs for num_shards={num_shards} and num_envs={num_envs}: give one for "
                "each shard."
            )
        num_shards = len(runtime_env)
    ray = connect(ray_address)
    count = min(num_envs, num_shards or max(1, int(ray.available_resources().get("CPU", 1))))
    sizes = [num_envs // count + (n < num_envs % count) for n in range(count)]
    shards = [
        RemoteShard(ray, replace(recipe, num_envs=size), first, node, packages)
        for size, first, node, packages in zip(
            sizes,
            accumulate(sizes, initial=0),
            cycle(nodes(ray)),
            runtime_env if isinstance(runtime_env, Sequence) else repeat(runtime_env),
            strict=False,
        )
    ]
    try:
        calls = [(shard, shard.actor.describe.remote()) for shard in shards]
        for shard, ref in calls:
            shard.description = shard.get(ref)
    except BaseException:
        end_shards(shards)
        raise
    return shards


def close_shards(shards: Sequence[RemoteShard]) -> None:
    """Close every environment, as far as the processes get to it in time."""
    watch = shards[0].watch
    if watch.is_here():
        try:
            closing = [shard.actor.close.remote() for shard in shards]
            watch.wait(closing, _CLOSING_SECONDS, len(closing))
        except RayUnavailable:
            pass  # and so are they


def end_shards(shards: Sequence[RemoteShard]) -> None:
    """End the processes, whatever they are doing."""
    for shard in shards:
        if shard.watch.is_here():
            shard.ray.kill(shard.actor)


def pack(slots: list[int], orders: list[Any]) -> bytes:
    """Orders as they cross; raises if an action cannot be pickled.

    A process may lack the classes of the caller's script, and one order that it cannot read would fail all. Subclasses
    of JSON's types cross as these types, and an action with a `to_dict` as its dict.
    """
    buffer = io.BytesIO()
    _PlainPickler(buffer, pickle.HIGHEST_PROTOCOL).dump((slots, orders))
    return buffer.getvalue()


class _PlainPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Pickle an object of an unknown class as plain data; C calls it only for objects of no built-in type."""
        kind = type(obj)
        if isinstance(obj, type) or kind.__module__.partition(".")[0] in _KNOWN_PACKAGES:
            return NotImplemented
        for base, plain in _PLAIN.items():
            if isinstance(obj, base):
                return base, (plain(obj),)
        return (dict, (obj.to_dict(),)) if callable(getattr(kind, "to_dict", None)) else NotImplemented


_KNOWN_PACKAGES = ("builtins", "collections", "gym_llm", "openai")
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__index__,
    float: float.__pos__,
    list: lambda value: list.__getitem__(value, slice(None)),
    dict: lambda value: {key: dict.__getitem__(value, key) for key in dict.keys(value)},
}
