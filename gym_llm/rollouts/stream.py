"""Streams: groups of episodes without end, for trainers that learn while the next ones are played."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self, Unpack, cast, get_args

from gym_llm.concurrency.loop_thread import LoopThread
from gym_llm.core.task_sampler import TaskSampler
from gym_llm.engines import make_engine
from gym_llm.engines.engine import Engine
from gym_llm.engines.specs import model_spec, seeded_options
from gym_llm.engines.weights import UpdateMode, Weights, WeightSync, update_options
from gym_llm.errors import EngineError
from gym_llm.rollouts.failure_limit import DEFAULT as FAILURES
from gym_llm.rollouts.failure_limit import FailureLimit
from gym_llm.rollouts.groups import Group
from gym_llm.rollouts.made_by import made_by
from gym_llm.rollouts.plan import Plan, open_plan
from gym_llm.rollouts.play import iter_records
from gym_llm.rollouts.settings import RolloutSettings, SettingOptions
from gym_llm.rollouts.staleness import Stale, sampled_tokens
from gym_llm.rollouts.stream_jobs import ENDLESS, StreamJobs
from gym_llm.types import Rollout, Row


class Stream:
    """Groups of episodes, played without end by an engine whose weights change meanwhile; see `gym_llm.stream`.

    Iterate with `async for` on an event loop, or with `for` in synchronous code: episodes then go on in a thread.
    `async with` (or `with`) closes it; a loop that is left does not. After a `TimeoutError` or an interrupt it goes on.

    Args:
        room: For a consumer with a queue of its own: returns how many groups fit in there now, beside those under way.
            A group begins only if it does. Call `look_again` when there may be more room.

    The other arguments are those of `gym_llm.stream`.

    Attributes:
        counts: `groups`, `episodes` and `tokens` (sampled ones) that were delivered. When it is closed:
            `discarded_episodes` and `discarded_tokens` (finished, not delivered), and `unfinished_episodes`.
        sampler: The `TaskSampler`; None if tasks are taken in a shuffled order.
    """

    def __init__(
        self,
        plan: Plan,
        engine: str | Engine,
        settings: RolloutSettings,
        *,
        max_staleness: int | None = None,
        stale: Stale = "keep",
        groups_per_update: int | None = None,
        sampler: TaskSampler | None = None,
        engines: int = 1,
        engine_options: dict[str, Any] | None = None,
        max_failures: int | str | None = FAILURES,
        room: Callable[[], int] | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.sampler = sampler
        self._plan, self._given, self._settings = plan, engine, settings
        self._max_staleness, self._stale = max_staleness, stale
        self._options = seeded_options(engine, engine_options, settings.seed) if isinstance(engine, str) else {}
        self._engine: Engine | None = None
        self._engines = engines
        self._playing: tuple[str | Engine, dict[str, Any]] = engine, self._options  # what the episodes are played with
        self._stack = AsyncExitStack()
        self._records: AsyncGenerator[Rollout, None] | None = None
        jobs = self._jobs = StreamJobs(plan, settings.seed, sampler)
        self._has_room = room is not None
        if room is not None:
            jobs.limit = lambda: jobs.delivered + room()
        self._failures = FailureLimit(max_failures)
        self._is_closed = False
        self._starting = asyncio.Lock()
        self._groups_per_update = groups_per_update
        self._next: asyncio.Task[Rollout] | None = None
        self._thread = LoopThread("gym_llm stream")

    @property
    def engine(self) -> Engine:
        """The engine that plays.

        Raises:
            EngineError: If the stream has not begun.
        """
        if self._engine is None:
            raise EngineError("The stream has not begun: use `async with`, or take its first group.")
        return self._engine

    @property
    def weight_version(self) -> int:
        """The version of the engine's weights."""
        return 0 if self._engine is None else self._engine.weight_version

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "recompute") -> None:
        """Replace the engine's weights while episodes go on; see `WeightSync.update_weights`.

        Raises:
            EngineError: If this engine's weights cannot be replaced.
        """
        engine = self.engine
        if not engine.capabilities.weights:
            raise EngineError(f"The weights of {engine.model}'s engine cannot be replaced.")
        await cast(WeightSync, engine).update_weights(weights, **update_options(mode, None))
        self._jobs.changed()

    def look_again(self) -> None:
        """Begin groups that the consumer has room for now; on the stream's event loop."""
        self._jobs.changed()

    # -- asynchronous ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start the engine, or the engines, of a spec."""
        async with self._starting:
            if self._engine is None:
                try:
                    self._engine = await self._start()
                except BaseException:
                    await self._stack.aclose()
                    raise
        return self

    async def _start(self) -> Engine:
        if not isinstance(self._given, str):
            return self._given
        engine = make_engine(self._given, **self._options)
        if not self._settings.workers or not engine.capabilities.weights:
            # With workers each process has a client of its own.
            engine = await self._stack.enter_async_context(engine)
            if not self._settings.workers:
                self._playing = engine, {}
            return engine
        from gym_llm.rollouts.ray.engine_group import shared_engines  # Ray is an optional dependency

        inner, options = model_spec(self._given, self._options)
        spec = inner
        if not inner.startswith(("actor:", "actors:")):
            sharing = shared_engines(inner, options, self._engines, ray_address=self._settings.ray_address)
            spec = await self._stack.enter_async_context(sharing)
            # An agent is in each process, around the engines that are shared.
            is_agent = inner != self._given
            around = self._given, {**self._options, "engine": spec, "engine_options": {}}
            self._playing = around if is_agent else (spec, {})
        return await self._stack.enter_async_context(make_engine(spec))

    async def __aexit__(self, *_: object) -> None:
        """Close the stream."""
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Group]:
        return self

    async def __anext__(self) -> Group:
        """Return the next group, as soon as all of its episodes are finished.

        Raises:
            TooManyFailures: If more episodes are masked than `max_failures`.
        """
        if self._is_closed:
            raise StopAsyncIteration
        await self.__aenter__()
        if self._records is None:
            begun, identity = self.weight_version, None
            if self._stale == "wait":
                assert self._max_staleness is not None and self._groups_per_update is not None
                lead, size = self._max_staleness + 1 - begun, self._groups_per_update
                self._jobs.limit, self._jobs.in_time = lambda: (self.weight_version + lead) * size, True
            engine, options = self._playing
            if self._settings.workers:
                identity = await asyncio.to_thread(_identity, self._plan, self._given, self._options, self._settings)
            more: dict[str, Any] = {"engine_options": options, "made_by": identity}
            self._records = iter_records(self._plan, engine, self._settings, self._jobs, **more)
        while True:
            if (group := self._jobs.take()) is not None:
                self.counts["groups"] += 1
                self.counts["episodes"] += len(group)
                self.counts["tokens"] += sum(map(sampled_tokens, group))
                return group
            if not self._has_room:
                self._jobs.want_one()
            record = await self._next_record(self._records)
            if record is not None:
                self._failures.count(record)

    async def _next_record(self, records: AsyncGenerator[Rollout, None]) -> Rollout | None:
        """Wait for a record, in a task that goes on if the caller is cancelled; None if another caller got it."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(records))  # type: ignore[arg-type]
        task = self._next
        await asyncio.wait([task])
        if self._is_closed:
            raise StopAsyncIteration
        if self._next is not task:
            return None
        self._next = None
        return task.result()

    async def aclose(self) -> None:
        """Cancel the episodes under way, and close the engine if it was a spec. Safe to call twice."""
        self._is_closed = True
        task, self._next = self._next, None
        records, self._records = self._records, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()  # else asyncio logs that nobody asked for it
            if records is not None:
                await records.aclose()
        finally:
            groups, unfinished = self._jobs.discard()
            self.counts["discarded_episodes"] += sum(map(len, groups))
            self.counts["discarded_tokens"] += sum(sampled_tokens(record) for group in groups for record in group)
            self.counts["unfinished_episodes"] += unfinished
            await self._stack.aclose()
            self._engine = None

    # -- synchronous -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start the engine in the stream's thread."""
        try:
            self._thread.run(self.__aenter__())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the stream and end its thread."""
        self.close()

    def __iter__(self) -> Iterator[Group]:
        return self

    def __next__(self) -> Group:
        """Return the next group; episodes go on in the stream's thread between two calls."""
        try:
            return self._thread.run(self.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def update_weights_and_wait(self, weights: Weights, *, mode: UpdateMode = "recompute") -> None:
        """Replace the engine's weights, in synchronous code; see `update_weights`."""
        self._thread.run(self.update_weights(weights, mode=mode))

    def close(self) -> None:
        """Close the stream and end its thread, in synchronous code. Safe to call twice."""
        if self._thread.is_running:
            try:
                self._thread.run(self.aclose())
            finally:
                self._thread.close()


def stream(
    env_id: str,
    engine: str | Engine = "pocket",
    *,
    group_size: int = 8,
    tasks: str | list[Row] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    limit: int | None = None,
    max_staleness: int | None = None,
    stale: Stale = "keep",
    groups_per_update: int | None = None,
    sampler: TaskSampler | None = None,
    max_failures: int | str | None = FAILURES,
    engines: int = 1,
    engine_options: dict[str, Any] | None = None,
    settings: RolloutSettings | None = None,
    **more: Unpack[SettingOptions],
) -> Stream:
    """Play groups of episodes without end, while a trainer learns from those that are finished.

    Episodes go on while the weights change (`Stream.update_weights`), and every sampled token carries the version of
    its weights (`weight_versions` of a trajectory). At most `concurrency` episodes are under way, and as many wait.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        engine: A spec, started and closed by the stream, or an engine that you started. With `workers` it is a spec.
        group_size: Episodes of each group, of one task.
        tasks: A JSON Lines path or a list of rows instead of the environment's own tasks.
        env_kwargs: Further arguments of the environment.
        limit: Play only the first tasks, this many. Where tasks are generated, None plays each once.
        max_staleness: With `wait`: by how many versions a delivered token may be older than the weights.
        stale: What happens to older tokens; see `Stale`.
        groups_per_update: With `wait`: how many groups the trainer takes for an update.
        sampler: Chooses the tasks by their rewards; None for all in turn, shuffled.
        max_failures: The largest number, or share, of masked episodes; see `FailureLimit`.
        engines: With `workers`: the number of engines, each in a Ray actor. All get the same weights.
        engine_options: Arguments of the engine that the spec names.
        settings: How the episodes are played.
        **more: Or the settings one by one: `concurrency`, `seed`, `sampling`, …; see `RolloutSettings`.

    Returns:
        The stream, for `async for` or `for`.

    Raises:
        ValueError: If the numbers make no sense.
        UsageError: If the tasks of a `sampler` cannot be counted.

    >>> groups = stream("gym_llm/Arithmetic-v0", "pocket", group_size=2, concurrency=4)
    >>> with groups:
    ...     first = next(groups)
    >>> len(first), groups.counts["groups"]
    (2, 1)
    """
    settings = RolloutSettings.of(settings, **more)
    if type(group_size) is not int or group_size < 1:
        raise ValueError(f"group_size is the number of episodes of a group, 1 or more; got {group_size!r}.")
    if stale not in get_args(Stale):
        raise ValueError(f"stale must be keep or wait, got {stale!r}.")
    if stale == "keep" and max_staleness is not None:
        raise ValueError("stale='keep' delivers tokens of any age: leave max_staleness out, or give stale='wait'.")
    if stale == "wait" and max_staleness is None:
        raise ValueError("stale='wait' needs max_staleness, the number of versions that a token may be old.")
    if max_staleness is not None and (type(max_staleness) is not int or max_staleness < 0):
        raise ValueError(f"max_staleness is a number of versions, 0 or more; got {max_staleness!r}.")
    if (groups_per_update is None) == (stale == "wait"):
        raise ValueError("groups_per_update is for stale='wait', which needs it.")
    if groups_per_update is not None and (type(groups_per_update) is not int or groups_per_update < 1):
        raise ValueError(f"groups_per_update is a number of groups, 1 or more; got {groups_per_update!r}.")
    if settings.workers and not isinstance(engine, str):
        raise ValueError("With workers the engine is a spec such as 'vllm:MODEL', which other processes start.")
    if type(engines) is not int or engines < 1 or (engines > 1 and not settings.workers):
        raise ValueError(f"engines is a number of engines, 1 or more, and more than 1 with workers; got {engines!r}.")
    which: dict[str, Any] = {"tasks": tasks, "env_kwargs": env_kwargs, "limit": limit, "seed": settings.seed}
    plan = open_plan(env_id, repeats=max(group_size, 2), **which)
    if plan.factory.scores_groups and group_size < 2:
        raise ValueError(f"{env_id} scores a task's episodes as a group: give a `group_size` of 2 or more.")
    source = plan.factory.tasks
    never_again = limit is None and source is not None and source.size is None
    num_tasks = ENDLESS if never_again else plan.num_tasks
    return Stream(
        replace(plan, repeats=group_size, num_tasks=num_tasks, length=ENDLESS),
        engine,
        settings,
        max_staleness=max_staleness,
        stale=stale,
        groups_per_update=groups_per_update,
        sampler=sampler,
        engines=engines,
        engine_options=engine_options,
        max_failures=max_failures,
    )


def _identity(plan: Plan, engine: str | Engine, options: dict[str, Any], settings: RolloutSettings) -> dict[str, Any]:
    return made_by(plan.factory, engine, options, settings).key
