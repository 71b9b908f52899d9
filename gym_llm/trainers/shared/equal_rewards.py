"""EqualRewards: a warning where nothing can be learned, because the episodes of each group have equal rewards."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from gym_llm.utils.secrets import redacted_logger

_GROUPS = 8
"""Groups in a row with equal rewards after which there is a warning; the next one comes after eight times as many."""

_COUNTED_FROM = 4  # episodes of a group that is still under way
_MOST_TASKS = 10_000

logger = redacted_logger(__name__)


class EqualRewards:
    """Watches the rewards of a training, grouped by task: GRPO's advantages are 0 in a group of equal rewards."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, tuple[float, int]] = {}
        self._equal = 0
        self._next = _GROUPS

    def add(self, task: Hashable, reward: float | None) -> None:
        """Note the reward of an episode; None if it is masked."""
        if reward is None:
            return
        first, count = self._groups.get(task, (reward, 0))
        if first != reward or len(self._groups) > _MOST_TASKS:
            self._groups.clear()
            self._equal = 0
            return
        self._groups[task] = first, count + 1
        if count + 1 == _COUNTED_FROM:
            self._count(reward)

    def add_batch(self, rewards: Iterable[tuple[Hashable, float | None]]) -> None:
        """Note the task and the reward of each episode of a batch, which has whole groups."""
        tasks: dict[Hashable, None] = {}
        for task, reward in rewards:
            tasks[task] = None
            self.add(task, reward)
        for task in tasks:
            first, count = self._groups.get(task, (0.0, 0))
            if 1 < count < _COUNTED_FROM:
                self._groups[task] = first, _COUNTED_FROM
                self._count(first)

    def _count(self, reward: float) -> None:
        self._equal += 1
        if self._equal >= self._next:
            self._next *= 8
            logger.warning(
                "Nothing can be learned: all of the last %d groups have equal rewards (the last one %g). Check the "
                "verifier, or choose tasks of medium difficulty with gym-llm filter.",
                self._equal,
                reward,
            )
