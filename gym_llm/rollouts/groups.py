"""Groups: episodes of one task that a trainer compares with each other, returned as soon as all of a group are in.

Groups are filled episode by episode. A free slot takes the next episode, of any group, so no group waits for another's
slowest member.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TypeAlias

from gym_llm.rollouts.plan import Job, Plan
from gym_llm.rollouts.task_draws import GroupKey, TaskDraws
from gym_llm.types import Rollout

Group: TypeAlias = list[Rollout]
"""The records of one task's episodes, sorted by their repeat index; masked ones have no reward."""


class GroupJobs(Iterator[Job]):
    """An iterator over the episodes of groups, in the order of their start; it also collects the finished groups.

    It may have no job now and one later: `schedule` asks again after every episode that it passes to `finished`.

    Attributes:
        size: Episodes of each group.
        settles: Whether there is a `settle_after`.

    Args:
        plan: Its tasks are played, each by `plan.repeats` episodes.
        drop_equal: Drop a group if its rewards are all equal, or if fewer than two of its episodes are scored: their
            advantages are 0. This is dynamic sampling (Yu et al. 2025, "DAPO", arXiv 2503.14476, section 3.2).
        settle_after: Play this many episodes of a group first, and the others only if these differ; None: all at once.
        dropped: Counts dropped groups by reason (`"equal"`, `"settled"`, `"masked"`), and their `"episodes"`.
        draws: Draws the tasks, `plan.num_tasks` times; None for all in turn.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        drop_equal: bool,
        settle_after: int | None,
        dropped: Counter[str],
        draws: TaskDraws | None = None,
    ) -> None:
        self.size = plan.repeats
        if settle_after is not None and not 2 <= settle_after < self.size:
            raise ValueError(
                f"settle_after is how many of a group are played first, from 2 to group_size - 1; got {settle_after}."
            )
        self.settles = settle_after is not None
        self._first = settle_after or self.size
        self._drop_equal = drop_equal
        self._dropped = dropped
        self._tasks = iter(range(plan.first_task, plan.first_task + plan.num_tasks))
        self._draws = draws
        self._ready: deque[Job] = deque()
        self._playing: dict[GroupKey, Group] = {}
        self._complete: deque[Group] = deque()

    def __next__(self) -> Job:
        """The next episode; StopIteration also if more may come."""
        if not self._ready:
            task, number = next(self._tasks), 0
            if self._draws is not None:
                task, number = self._draws.next()
            self._playing[task, number] = []
            self._begin((task, number), range(self._first))
        return self._ready.popleft()

    def finished(self, job: Job, record: Rollout) -> None:
        """Add an episode to its group."""
        key = job.task_index, job.repeat_index // self.size
        group = self._playing[key]
        group.append(record)
        if self._draws is not None:
            self._draws.finished(job, key[1], record)
        if len(group) == self.size:
            self._end(key)
        elif len(group) == self._first < self.size:
            if _difference(group) == "equal":
                self._drop(key, "settled")
            else:  # masked ones say nothing: the others may differ
                self._begin(key, range(self._first, self.size))

    def take(self) -> Group | None:
        """Return a complete group, each one once; None if no group is complete now."""
        return self._complete.popleft() if self._complete else None

    def _begin(self, key: GroupKey, numbers: range) -> None:
        task, group = key
        self._ready.extend(Job(task, group * self.size + number) for number in numbers)

    def _end(self, key: GroupKey) -> None:
        why = _difference(self._playing[key])
        if why is not None and self._drop_equal:
            self._drop(key, why)
        else:
            group = self._let_go(key)
            self._complete.append(sorted(group, key=lambda record: record["rollout_id"]["repeat_index"]))

    def _drop(self, key: GroupKey, why: str) -> None:
        self._dropped[why] += 1
        self._dropped["episodes"] += len(self._let_go(key))

    def _let_go(self, key: GroupKey) -> Group:
        if self._draws is not None:
            self._draws.ended(key)
        return self._playing.pop(key)


def _difference(group: Group) -> str | None:
    scored = [record["reward"] for record in group if record["reward"] is not None]
    if len(scored) < 2:
        return "masked"
    return "equal" if len(set(scored)) == 1 else None
