"""Spreading the episodes of a run over workers, and doing again what a worker that died had not handed over."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from gym_llm.concurrency.relaxed_gc import relaxed_gc
from gym_llm.errors import ShardDied
from gym_llm.records.record import lost_record
from gym_llm.rollouts.plan import Job
from gym_llm.types import Rollout

_DEATHS_BEFORE_SUSPICION = 3
_DEATHS_ALONE = 2
_SHRINKING = 4
_REPORT_SECONDS = 1.0


class AnyWorker(Protocol):
    """A `EpisodeWorker`, wherever it runs."""

    @property
    def env_id(self) -> str:
        """Which environment it plays."""

    @property
    def num_envs(self) -> int:
        """How many episodes it plays at once."""

    async def submit_and_poll(self, jobs: Sequence[Job]) -> list[tuple[Job, Rollout]]:
        """See `EpisodeWorker.submit_and_poll`.

        Raises:
            ShardDied: If the worker's process did not live to answer.
        """

    async def restart(self) -> None:
        """Put a new process in the dead one's place."""

    async def waiting(self) -> dict[str, int]:
        """See `EpisodeWorker.waiting`."""


async def schedule(
    workers: Sequence[AnyWorker], jobs: Iterable[Job], on_waiting: Callable[[dict[str, int]], None] | None = None
) -> AsyncGenerator[Rollout, None]:
    """Play jobs on several workers.

    Every worker is given as many jobs as it has slots, so that a short run is spread over all of them, and from then on
    holds twice as many, so that a finished slot always has the next one at hand. What a dead worker was playing is
    played again.

    Args:
        workers: One or more.
        jobs: Taken as they are needed. If it has a method `finished`, that is told of each record, and there may
            be further jobs after that, although there was none before.
        on_waiting: See `RolloutSettings`.

    Yields:
        Exactly one record for each job, in the order of finishing. While nobody takes them, no further job is started.
    """
    run = _Schedule(workers, jobs)
    tasks = [asyncio.create_task(run.serve(worker)) for worker in workers]
    if on_waiting is not None:
        tasks.append(asyncio.create_task(_report_waiting(workers, on_waiting)))
    try:
        with relaxed_gc():
            while (record := await run.records.get()) is not None:
                if isinstance(record, BaseException):
                    raise record
                run.taken()
                yield record
    finally:
        for task in tasks:  # one may be waiting for a new process that nobody needs any more
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _report_waiting(workers: Sequence[AnyWorker], on_waiting: Callable[[dict[str, int]], None]) -> None:
    while True:
        await asyncio.sleep(_REPORT_SECONDS)
        total: Counter[str] = Counter()
        for count in await asyncio.gather(*(worker.waiting() for worker in workers)):
            total.update(count)
        on_waiting(total)


class _Schedule:
    """One task per worker hands jobs out and takes records in; what they share is below.

    A job is in exactly one place at a time: not yet taken from the iterator, in `_retries`, among a worker's jobs, in
    `_suspects`, or recorded. So a death can only move jobs, never lose or double one.

    Who is to blame for a death cannot be seen, only narrowed down. A job that was under way in three deaths becomes a
    suspect. Suspects are played last, apart from all others, in groups; the suspects of a group that dies again come
    back with a group size of a quarter, until one is alone. Dying alone twice is proof: it gets a record with an error.
    An innocent one is played to its end in some group that does not have the guilty one in it.
    """

    def __init__(self, workers: Sequence[AnyWorker], jobs: Iterable[Job]) -> None:
        self.records: asyncio.Queue[Rollout | BaseException | None] = asyncio.Queue()
        self._limit = sum(worker.num_envs for worker in workers)
        self._jobs = iter(jobs)
        self._tell: Callable[[Job, Rollout], None] = getattr(jobs, "finished", lambda job, record: None)
        self._retries: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._group_size: dict[Job, int] = {}  # of each suspect: with how many it may be played
        self._deaths: Counter[Job] = Counter()
        self._deaths_alone: Counter[Job] = Counter()
        self._under_way = 0
        self._changed = asyncio.Condition()
        self._room = asyncio.Event()
        self._room.set()

    def taken(self) -> None:
        """Note that the consumer took a record; with fewer than `_limit` waiting, workers get jobs again."""
        if self.records.qsize() < self._limit:
            self._room.set()

    async def serve(self, worker: AnyWorker) -> None:
        """Keep a worker busy to the end. None among the records says that all jobs are done; an error is raised."""
        try:
            await self._serve(worker)
            self.records.put_nowait(None)
        except BaseException as error:  # the consumer's to raise
            self.records.put_nowait(error)

    async def _serve(self, worker: AnyWorker) -> None:
        assigned: set[Job] = set()
        capacity = worker.num_envs
        while True:
            await self._room.wait()
            new = await self._next(capacity, assigned)
            if not new and not assigned:
                return
            assigned.update(new)
            try:
                finished = await worker.submit_and_poll(new)
            except ShardDied as death:
                await self._handle_death(worker.env_id, assigned, str(death))
                assigned.clear()
                await worker.restart()
                continue
            capacity = 2 * worker.num_envs
            for job, record in finished:
                assigned.discard(job)
                self._hand_over(job, record)
            await self._note_done(len(finished))
            if self.records.qsize() >= self._limit:
                self._room.clear()

    def _hand_over(self, job: Job, record: Rollout) -> None:
        self._tell(job, record)
        self.records.put_nowait(record)

    async def _next(self, capacity: int, assigned: set[Job]) -> list[Job]:
        """Jobs to take on; waits for some only while the worker is idle and others could still die."""
        async with self._changed:
            while True:
                new = self._take(capacity, assigned)
                self._under_way += len(new)
                if new or assigned or self._under_way == 0:
                    return new
                await self._changed.wait()

    def _take(self, capacity: int, assigned: set[Job]) -> list[Job]:
        if not self._group_size.keys().isdisjoint(assigned):
            return []  # a group of suspects stays among itself
        new = list(islice(self._unplayed(), max(capacity - len(assigned), 0)))
        if not new and not assigned and self._suspects:
            size = min(self._group_size[self._suspects[0]], len(self._suspects))
            new = [self._suspects.popleft() for _ in range(size)]
        return new

    def _unplayed(self) -> Iterable[Job]:
        while self._retries:
            yield self._retries.popleft()
        for job in self._jobs:  # noqa: UP028 - `yield from` would close the jobs together with this generator
            yield job

    async def _note_done(self, count: int) -> None:
        async with self._changed:
            self._under_way -= count
            self._changed.notify_all()

    async def _handle_death(self, env_id: str, jobs: set[Job], cause: str) -> None:
        if len(jobs) == 1:
            self._deaths_alone.update(jobs)
        group_size = max(1, len(jobs) // _SHRINKING)
        for job in sorted(jobs):
            self._deaths[job] += 1
            if self._deaths_alone[job] >= _DEATHS_ALONE:
                sentence = f"The shard that played this episode died, again and again: {cause}"
                self._hand_over(job, lost_record(env_id, job, sentence))
            elif self._deaths[job] >= _DEATHS_BEFORE_SUSPICION:
                self._group_size[job] = group_size
                self._suspects.append(job)
            else:
                self._retries.append(job)
        await self._note_done(len(jobs))
