"""TaskDraws: groups of episodes whose tasks a sampler draws."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from gym_llm.core.task_sampler import TaskSampler
from gym_llm.core.tasks import TaskSource
from gym_llm.rollouts.plan import Job
from gym_llm.types import Rollout

GroupKey: TypeAlias = tuple[int, int]
"""A task's index, and the number of the group among this task's, from 0."""


class TaskDraws:
    """Draws the task of each group, and updates the sampler with the rewards of its episodes.

    A task that is drawn again has other repeat indexes. Records get the probability of their group's draw, as
    `info["task_probability"]`.

    Args:
        sampler: It takes on the tasks.
        source: The environment's tasks.
        tasks: Draw from these alone; None for all.

    Raises:
        UsageError: If the tasks cannot be counted.
    """

    def __init__(self, sampler: TaskSampler, source: TaskSource | None, tasks: range | None = None) -> None:
        sampler.begin_with(source, tasks)
        self._sampler, self._first = sampler, 0 if tasks is None else tasks.start
        self._groups: Counter[int] = Counter()
        self._odds: dict[GroupKey, float] = {}

    def next(self) -> GroupKey:
        """Draw the task of a group that begins now."""
        place, odds = self._sampler.draw()
        task = self._first + place
        group = self._groups[task]
        self._groups[task] += 1
        self._odds[task, group] = odds
        return task, group

    def finished(self, job: Job, group: int, record: Rollout) -> None:
        """Take an episode of this group into account."""
        record["info"]["task_probability"] = self._odds[job.task_index, group]
        self._sampler.update(job.task_index - self._first, record["reward"])

    def ended(self, key: GroupKey) -> None:
        """Let go of a group of which no more episodes come."""
        del self._odds[key]
