"""Groups: episodes of one task that a trainer compares with each other, returned as soon as all of a group are in.

Groups are filled episode by episode. A free slot takes the next episode, of any group, so no group waits for another's
slowest member.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TypeAlias

from gym_llm.rollouts.plan import Job, Plan
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
    """

    def __init__(self, plan: Plan, *, drop_equal: bool, settle_after: int | None, dropped: Counter[str]) -> None:
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
        self._ready: deque[Job] = deque()
        self._playing: dict[int, Group] = {}
        self._complete: deque[Group] = deque()

    def __next__(self) -> Job:
        """The next episode; StopIteration also if more may come."""
        if not self._ready:
            task = next(self._tasks)
            self._playing[task] = []
            self._ready.extend(Job(task, repeat) for repeat in range(self._first))
        return self._ready.popleft()

    def finished(self, job: Job, record: Rollout) -> None:
        """Add an episode to its group."""
        group = self._playing[job.task_index]
        group.append(record)
        if len(group) == self.size:
            self._end(job.task_index)
        elif len(group) == self._first < self.size:
            if _difference(group) == "equal":
                self._drop(job.task_index, "settled")
            else:  # masked ones say nothing: the others may differ
                self._ready.extend(Job(job.task_index, repeat) for repeat in range(self._first, self.size))

    def take(self) -> Group | None:
        """Return a complete group, each one once; None if no group is complete now."""
        return self._complete.popleft() if self._complete else None

    def _end(self, task: int) -> None:
        why = _difference(self._playing[task])
        if why is not None and self._drop_equal:
            self._drop(task, why)
        else:
            group = self._playing.pop(task)
            self._complete.append(sorted(group, key=lambda record: record["rollout_id"]["repeat_index"]))

    def _drop(self, task: int, why: str) -> None:
        self._dropped[why] += 1
        self._dropped["episodes"] += len(self._playing.pop(task))


def _difference(group: Group) -> str | None:
    scored = [record["reward"] for record in group if record["reward"] is not None]
    if len(scored) < 2:
        return "masked"
    return "equal" if len(set(scored)) == 1 else None
