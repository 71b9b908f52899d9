"""The scheduler: spreads a run's episodes over workers, and replays the episodes of a worker that died.

The protocol when a shard's process dies:

1. `submit_and_poll` raises `ShardDied`. All jobs assigned to the worker are lost, and each counts one death.
2. Each job is queued again, the worker is restarted, and the run continues.
3. A job that has seen three deaths is a suspect. Suspects are played after all other jobs, on one worker at a time, in
   groups. When a group dies, its jobs come back in groups of a quarter of its size.
4. A suspect that dies alone twice gets a record with an error. Any other job is played to its end in a group without
   the guilty job.

A job is in exactly one place at a time: still in the iterator, in `_retries`, with a worker, in `_suspects`, or
recorded. A death only moves jobs, so no job is lost or recorded twice.
"""

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
    """An `EpisodeWorker` in this process or in another one."""

    @property
    def env_id(self) -> str:
        """The id of the environment that it plays."""

    @property
    def num_envs(self) -> int:
        """Number of episodes at once."""

    async def submit_and_poll(self, jobs: Sequence[Job]) -> list[tuple[Job, Rollout]]:
        """See `EpisodeWorker.submit_and_poll`.

        Raises:
            ShardDied: If the worker's process ended before it answered.
        """

    async def restart(self) -> None:
        """Replace the dead process."""

    async def waiting(self) -> dict[str, int]:
        """See `EpisodeWorker.waiting`."""

    def recorded(self, job: Job) -> None:
        """See `EpisodeWorker.recorded`."""

    def release(self) -> None:
        """See `EpisodeWorker.release`."""


async def schedule(
    workers: Sequence[AnyWorker],
    jobs: Iterable[Job],
    on_waiting: Callable[[dict[str, int]], None] | None = None,
    *,
    finishes: bool = True,
) -> AsyncGenerator[Rollout, None]:
    """Play jobs on several workers.

    Each worker first gets as many jobs as it has slots, so that a short run is spread over all workers. From then on it
    holds twice as many, so that a slot that finishes always finds the next job.

    Args:
        workers: One or more.
        jobs: An iterable that is read as workers become free. The scheduler calls its method `finished(job, record)`,
            if it has one, for each record. Afterwards the iterator may yield further jobs, even if it was exhausted.
            One with an attribute `on_change` never ends. The scheduler sets that attribute, and asks for jobs again
            when it is called. While no episode is under way, it also asks when the consumer takes a record.
        on_waiting: See `RolloutSettings`.
        finishes: Whether the scheduler calls `finished`; else the consumer does, later.

    Yields:
        Exactly one record for each job, in the order of finishing. No job is started while the consumer lags behind.
    """
    run = _Schedule(workers, jobs, finishes=finishes)
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
        for task in tasks:  # one may be waiting for a new process, which is not needed any more
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
    """The state that the tasks of all workers share; see the module."""

    def __init__(self, workers: Sequence[AnyWorker], jobs: Iterable[Job], *, finishes: bool) -> None:
        self.records: asyncio.Queue[Rollout | BaseException | None] = asyncio.Queue()
        self._limit = sum(worker.num_envs for worker in workers)
        self._jobs = iter(jobs)
        self._on_finished: Callable[[Job, Rollout], None] | None = getattr(jobs, "finished", None) if finishes else None
        self._retries: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._group_size: dict[Job, int] = {}  # for each suspect: the size of its next group
        self._deaths: Counter[Job] = Counter()
        self._deaths_alone: Counter[Job] = Counter()
        self._under_way = 0
        self._changed = asyncio.Condition()
        self._room = asyncio.Event()
        self._room.set()
        self._is_endless = hasattr(jobs, "on_change")
        self._workers = workers
        if self._is_endless:
            jobs.on_change = self._release  # type: ignore[attr-defined]

    def taken(self) -> None:
        """Note that the consumer took a record; with fewer than `_limit` waiting, workers get jobs again."""
        if self.records.qsize() < self._limit:
            self._room.set()

    def _release(self) -> None:
        """Have each worker ask for jobs now."""
        self.taken()
        for worker in self._workers:
            worker.release()

    async def serve(self, worker: AnyWorker) -> None:
        """Keep a worker busy until all jobs are done. Puts None, or the error that ended it, into `records`."""
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
                if not self._is_endless:
                    return
                self._room.clear()  # until the consumer takes a record, or the jobs change
                continue
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
                self._record(job, record)
            await self._note_done(len(finished))
            if self.records.qsize() >= self._limit:
                self._room.clear()

    def _record(self, job: Job, record: Rollout) -> None:
        if self._on_finished is not None:
            self._on_finished(job, record)
        self.records.put_nowait(record)

    async def _next(self, capacity: int, assigned: set[Job]) -> list[Job]:
        """Return the next jobs of a worker; an idle worker waits as long as others may die and leave theirs."""
        async with self._changed:
            while True:
                new = self._take(capacity, assigned)
                self._under_way += len(new)
                if new or assigned or self._under_way == 0:
                    return new
                await self._changed.wait()

    def _take(self, capacity: int, assigned: set[Job]) -> list[Job]:
        if not self._group_size.keys().isdisjoint(assigned):
            return []  # no other job joins a group of suspects
        # Jobs without end leave no moment for suspects: their workers play these first.
        waits = self._is_endless and self._suspects
        new = [] if waits else list(islice(self._unplayed(), max(capacity - len(assigned), 0)))
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
                self._record(job, lost_record(env_id, job, sentence))
            elif self._deaths[job] >= _DEATHS_BEFORE_SUSPICION:
                self._group_size[job] = group_size
                self._suspects.append(job)
            else:
                self._retries.append(job)
        await self._note_done(len(jobs))
