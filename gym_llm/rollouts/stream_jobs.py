"""The episodes of a stream, group by group; see `gym_llm.stream`."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator

import numpy as np

from gym_llm.core.task_sampler import TaskSampler
from gym_llm.rollouts.groups import Group
from gym_llm.rollouts.plan import Job, Plan
from gym_llm.rollouts.task_draws import GroupKey, TaskDraws
from gym_llm.types import Rollout

ENDLESS = 1 << 62
"""A plan's number of tasks if no task comes again."""

_SHUFFLED = 1 << 20  # tasks; of more, one is drawn at random


class StreamJobs(Iterator[Job]):
    """The episodes of a stream, group by group, without end.

    Attributes:
        limit: Returns how many groups may have begun; None for any number.
        in_time: Whether a group that begins with a limit of n is among the first n that are delivered: others wait for
            it.
        on_change: Called when there may be jobs again: `schedule` asks for them.
        delivered: The number of groups that `take` has returned.
    """

    def __init__(self, plan: Plan, seed: int, sampler: TaskSampler | None) -> None:
        self.limit: Callable[[], int] | None = None
        self.in_time = False
        self.on_change: Callable[[], None] = lambda: None
        self.delivered = 0
        self._wanted = 0  # groups that may begin whatever the limit is: the consumer waits for the last of them
        self._size, self._first = plan.repeats, plan.first_task
        self._count = plan.num_tasks
        source = plan.factory.tasks
        is_part = source is not None and plan.num_tasks not in (source.size, ENDLESS)
        tasks = range(self._first, self._first + self._count) if is_part else None
        self._draws = None if sampler is None else TaskDraws(sampler, source, tasks)
        self._random = np.random.default_rng(seed)
        self._order: deque[int] = deque()
        self._begun = 0
        self._is_held = False  # by the limit
        self._repeats: Counter[int] = Counter()
        self._ready: deque[Job] = deque()
        self._playing: dict[GroupKey, Group] = {}
        self._complete: deque[tuple[GroupKey, Group]] = deque()
        self._due: dict[GroupKey, int] = {}  # if `in_time`: before how many others a group has to be delivered

    def __next__(self) -> Job:
        if not self._ready:
            limit = None if self.limit is None else max(self.limit(), self._wanted)
            if limit is not None and self._begun >= limit:
                self._is_held = True
                raise StopIteration
            task, group = self._next_group() if self._draws is None else self._draws.next()
            self._begun += 1
            if limit is not None and self.in_time:
                self._due[task, group] = limit
            self._playing[task, group] = []
            self._ready.extend(Job(task, group * self._size + number) for number in range(self._size))
        return self._ready.popleft()

    def finished(self, job: Job, record: Rollout) -> None:
        """Add an episode to its group."""
        key = job.task_index, job.repeat_index // self._size
        group = self._playing[key]
        group.append(record)
        if self._draws is not None:
            self._draws.finished(job, key[1], record)
        if len(group) == self._size:
            del self._playing[key]
            if self._draws is not None:
                self._draws.ended(key)
            self._complete.append((key, sorted(group, key=lambda each: each["rollout_id"]["repeat_index"])))

    def changed(self) -> None:
        """Have `schedule` ask again, if the limit held groups back and may now be higher."""
        if self._is_held:
            self._is_held = False
            self.on_change()

    def want_one(self) -> None:
        """Note that the consumer waits for a group: if the limit holds all back, one may begin."""
        self._wanted = self.delivered + 1
        self.changed()

    def take(self) -> Group | None:
        """Return a complete group; None if no group is complete now, or one that is not complete has to come first."""
        latest = self._latest() if self._due else None
        for place, (key, group) in enumerate(self._complete):
            has_passed = all("made_by" in record for record in group)  # else the last one is still on its way
            if has_passed and (latest is None or self._due[key] <= latest):
                del self._complete[place]
                self._due.pop(key, None)
                self.delivered += 1
                return group
        return None

    def discard(self) -> tuple[list[Group], int]:
        """Let go of all groups that `take` has not returned.

        Returns:
            Their finished episodes by group, and the number of episodes that are begun, or wait, and are not finished.
        """
        groups = [*(group for _, group in self._complete), *self._playing.values()]
        unfinished = self._size * len(self._playing) - sum(map(len, self._playing.values())) - len(self._ready)
        self._complete.clear()
        self._playing.clear()
        self._ready.clear()
        return groups, unfinished

    def _latest(self) -> int | None:
        """Return the highest due number of a group that may be taken now without making another one late.

        None if any group may be taken.
        """
        dues = enumerate(sorted(self._due.values()), self.delivered + 1)
        return next((due for earliest, due in dues if earliest >= due), None)

    def _next_group(self) -> GroupKey:
        if self._count == ENDLESS:
            return self._first + self._begun, 0
        if self._count > _SHUFFLED:
            task = self._first + int(self._random.integers(self._count))
        else:
            if not self._order:
                self._order.extend(self._random.permutation(self._count).tolist())
            task = self._first + self._order.popleft()
        group = self._repeats[task]
        self._repeats[task] += 1
        return task, group
