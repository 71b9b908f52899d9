"""DrawnOrder: the order of a GRPOTrainer's prompts, drawn by a TaskSampler."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from gym_llm.core.task_sampler import TaskSampler
from gym_llm.core.tasks import TaskSource
from gym_llm.trainers.shared.trainer_tasks import TASK_INDEX

if TYPE_CHECKING:
    from trl import GRPOTrainer


class DrawnOrder:
    """Draws the rows that a GRPOTrainer trains on, in place of its shuffled order.

    TRL takes a batch of rows, repeats each `num_generations` times, and reuses the episodes as often as its arguments
    say. All of this stays; only the choice of the rows is the sampler's. With several processes each one draws the same
    rows, since each one's sampler learns from all rewards. Data loaders read one batch ahead, so a draw knows of all
    rewards but the last batch's.

    Args:
        sampler: It takes on the tasks of the trainer's dataset.
        source: The environment's tasks.
    """

    def __init__(self, sampler: TaskSampler, source: TaskSource | None) -> None:
        self._sampler, self._source = sampler, source
        self._trainer: Any = None
        self._tasks: list[int] = []
        self._rows: dict[int, int] = {}
        self._batches: deque[dict[int, float]] = deque()

    def follow(self, trainer: GRPOTrainer) -> None:
        """Let the sampler choose the rows of this trainer's dataset.

        Raises:
            ValueError: If its dataset is not of the trainer's hook.
        """
        dataset: Any = trainer.train_dataset
        if TASK_INDEX not in (getattr(dataset, "column_names", None) or ()):
            raise ValueError("A sampler draws rows of the hook's own `dataset`; the trainer has another one.")
        self._tasks = list(dataset[TASK_INDEX])
        self._rows = {task: row for row, task in enumerate(self._tasks)}
        self._sampler.begin_with(self._source, self._tasks)
        self._trainer = trainer
        trls = trainer._get_train_sampler

        def ours(dataset: Any = None) -> _Rows:
            self._batches.clear()
            return _Rows(trls(dataset), self._draw)

        trainer._get_train_sampler = ours  # type: ignore[method-assign]

    def played(self, trainer: GRPOTrainer, tasks: Sequence[int]) -> list[float]:
        """Return the probability of each task's draw, for a batch that is trained on.

        Raises:
            ValueError: If the tasks were not drawn here.
        """
        odds = self._batches.popleft() if trainer is self._trainer and self._batches else {}
        if not odds.keys() >= set(tasks):
            raise ValueError("Call `choose_tasks(trainer)` before `trainer.train()`: the sampler did not draw these.")
        return [odds[task] for task in tasks]

    def learn(self, rewards: Iterable[tuple[int, float | None]]) -> None:
        """Update the sampler with pairs of task and reward; every process gets those of all."""
        for task, reward in rewards:
            self._sampler.update(self._rows[task], reward)

    def _draw(self, count: int) -> list[int]:
        draws = [self._sampler.draw() for _ in range(count)]
        self._batches.append({self._tasks[row]: odds for row, odds in draws})
        return [row for row, _ in draws]


class _Rows:
    """Indices of drawn rows, repeated as TRL's `RepeatSampler` repeats them."""

    def __init__(self, trls: Any, draw: Callable[[int], list[int]]) -> None:
        self._trls, self._draw = trls, draw

    def __iter__(self) -> Iterator[int]:
        trls = self._trls
        for _ in range(trls.num_samples // trls.batch_size):
            rows = self._draw(trls.batch_size)
            for row in (row for _ in range(trls.repeat_count) for row in rows):
                yield from repeat(row, trls.mini_repeat_count)

    def __len__(self) -> int:
        return len(self._trls)
