"""Spreading the episodes of a run over shards, and doing again what a shard that died had not handed over."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import islice
from typing import Protocol

from gym_llm.types import Rollout
from gym_llm.vector.garbage import rare_collection
from gym_llm.vector.plan import Job

_DEATHS_BEFORE_SUSPICION = 3
_DEATHS_ALONE = 2
_SHRINKING = 4


class ShardDied(Exception):
    """A shard's process has ended; the message says how."""


class AnyPlayer(Protocol):
    """A `Player`, wherever it runs."""

    @property
    def env_id(self) -> str:
        """Which environment it plays."""

    @property
    def num_envs(self) -> int:
        """How many episodes it plays at once."""

    async def exchange(self, jobs: Sequence[Job]) -> list[tuple[Job, Rollout]]:
        """See `Player.exchange`.

        Raises:
            ShardDied: If the shard did not live to answer.
        """

    async def restart(self) -> None:
        """Put a new shard in the dead one's place."""


async def dispatch(players: Sequence[AnyPlayer], jobs: Iterable[Job]) -> AsyncGenerator[Rollout, None]:
    """Play jobs on several shards.

    Every shard is given as many jobs as it has slots, so that a short run is spread over all of them, and from then on
    holds twice as many, so that a finished slot always has the next one at hand.
    What a dead shard was playing is played again. Jobs that were under way in several deaths are suspected: they come
    last, in groups of their own, a quarter the size with each further death, until the one that is to blame is alone.
    If its shard then dies again it gets a record with an `error`.

    Args:
        players: One or more.
        jobs: Taken as they are needed.

    Yields:
        Exactly one record for each job, in the order of finishing. While nobody takes them, no further job is started.
    """
    run = _Run(players, jobs)
    servers = [asyncio.create_task(run.serve(player)) for player in players]
    try:
        with rare_collection():
            while (record := await run.records.get()) is not None:
                if isinstance(record, BaseException):
                    raise record
                run.taken()
                yield record
    finally:
        for server in servers:  # one may be waiting for a new shard that nobody needs any more
            server.cancel()
        await asyncio.gather(*servers, return_exceptions=True)


class _Run:
    def __init__(self, players: Sequence[AnyPlayer], jobs: Iterable[Job]) -> None:
        self.records: asyncio.Queue[Rollout | BaseException | None] = asyncio.Queue()
        self._limit = sum(player.num_envs for player in players)
        self._jobs = iter(jobs)
        self._again: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._company: dict[Job, int] = {}  # of each suspect: how large a group it may be played in
        self._deaths: Counter[Job] = Counter()
        self._deaths_alone: Counter[Job] = Counter()
        self._under_way = 0
        self._changed = asyncio.Condition()
        self._room = asyncio.Event()
        self._room.set()

    def taken(self) -> None:
        if self.records.qsize() < self._limit:
            self._room.set()

    async def serve(self, player: AnyPlayer) -> None:
        try:
            await self._serve(player)
            self.records.put_nowait(None)
        except BaseException as error:  # the consumer's to raise
            self.records.put_nowait(error)

    async def _serve(self, player: AnyPlayer) -> None:
        mine: set[Job] = set()
        capacity = player.num_envs
        while True:
            await self._room.wait()
            new = await self._next(capacity, mine)
            if not new and not mine:
                return
            mine.update(new)
            try:
                finished = await player.exchange(new)
            except ShardDied as death:
                await self._bury(player.env_id, mine, str(death))
                mine.clear()
                await player.restart()
                continue
            capacity = 2 * player.num_envs
            for job, record in finished:
                mine.discard(job)
                self.records.put_nowait(record)
            await self._settle(len(finished))
            if self.records.qsize() >= self._limit:
                self._room.clear()

    async def _next(self, capacity: int, mine: set[Job]) -> list[Job]:
        """Jobs to take on; waits for some only while the shard is idle and other shards could still die."""
        async with self._changed:
            while True:
                new = self._take(capacity, mine)
                self._under_way += len(new)
                if new or mine or self._under_way == 0:
                    return new
                await self._changed.wait()

    def _take(self, capacity: int, mine: set[Job]) -> list[Job]:
        if not self._company.keys().isdisjoint(mine):
            return []
        new = list(islice(self._fresh(), max(capacity - len(mine), 0)))
        if not new and not mine and self._suspects:
            group = min(self._company[self._suspects[0]], len(self._suspects))
            new = [self._suspects.popleft() for _ in range(group)]
        return new

    def _fresh(self) -> Iterable[Job]:
        while self._again:
            yield self._again.popleft()
        for job in self._jobs:  # noqa: UP028 - `yield from` would close the jobs together with this generator
            yield job

    async def _settle(self, count: int) -> None:
        async with self._changed:
            self._under_way -= count
            self._changed.notify_all()

    async def _bury(self, env_id: str, jobs: set[Job], cause: str) -> None:
        if len(jobs) == 1:
            self._deaths_alone.update(jobs)
        company = max(1, len(jobs) // _SHRINKING)
        for job in sorted(jobs):
            self._deaths[job] += 1
            if self._deaths_alone[job] >= _DEATHS_ALONE:
                sentence = f"The shard that played this episode died, again and again: {cause}"
                self.records.put_nowait(failed_record(env_id, job, sentence))
            elif self._deaths[job] >= _DEATHS_BEFORE_SUSPICION:
                self._company[job] = company
                self._suspects.append(job)
            else:
                self._again.append(job)
        await self._settle(len(jobs))


def failed_record(env_id: str, job: Job, error: str) -> Rollout:
    """The record of an episode of which nothing is left but why.

    Args:
        env_id: Which environment it was of.
        job: Which episode.
        error: Why.
    """
    return {
        "rollout_id": {"task_index": job.task_index, "repeat_index": job.repeat_index},
        "env_id": env_id,
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "error": error,
        "info": {"task_index": job.task_index},
        "trajectory": None,
        "timing": {},
    }
