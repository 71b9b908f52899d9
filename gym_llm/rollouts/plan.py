"""Which episodes a run consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from gym_llm.core.tasks import GeneratedTasks
from gym_llm.errors import DataError
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.types import Row

_DEFAULT_GENERATED = 64
_SEED_STRIDE = 1 << 32
_MIX = 0x9E3779B97F4A7C15  # the golden ratio's bits: neighbouring seeds give unrelated environments
_MASK = (1 << 63) - 1


class Job(NamedTuple):
    """An episode to play."""

    task_index: int
    repeat_index: int

    @property
    def episode_id(self) -> str:
        """The name under which engines know the episode."""
        return f"{self.task_index}-{self.repeat_index}"

    def env_seed(self, run_seed: int) -> int:
        """The seed of the environment's own randomness in this episode, [0, 2**63)."""
        return (((run_seed * _MIX + self.task_index) * _MIX + self.repeat_index) * _MIX) & _MASK


@dataclass(frozen=True)
class Plan:
    """The episodes of a run, in the order in which they are started.

    Attributes:
        factory: Makes the environments.
        num_tasks: Number of different tasks.
        repeats: Episodes of each task; the last tasks have one less if `length` is not a multiple of `num_tasks`.
        length: Number of episodes.
        first_task: Index of the first task.
        interleaved: Whether all tasks are played once before any is repeated.
        note: A sentence where there are fewer tasks than were asked for; else "".
    """

    factory: EnvFactory
    num_tasks: int
    repeats: int
    length: int
    first_task: int = 0
    interleaved: bool = False
    note: str = ""

    def __len__(self) -> int:
        """Number of episodes."""
        return self.length

    def jobs(self) -> Iterator[Job]:
        """The episodes."""
        for n in range(self.length):
            task, repeat = (n % self.num_tasks, n // self.num_tasks) if self.interleaved else divmod(n, self.repeats)
            yield Job(self.first_task + task, repeat)


def open_plan(
    env: str | EnvFactory,
    *,
    tasks: str | list[Row] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    episodes: int | None = None,
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    needs_tasks: bool = True,
) -> Plan:
    """Make the environment once, so that whatever is wrong with it shows now, and count its episodes.

    Args:
        env: A registered id; or what makes the environments already, instead of `tasks` and `env_kwargs` too.
        tasks: See `gym_llm.rollout`, as for the others.
        env_kwargs: Further arguments of the environment.
        episodes: Not together with `limit` or `repeats`.
        limit: Play only the first tasks, this many.
        repeats: Number of times that each task is played.
        seed: Generated tasks begin at index `seed * 2**32`, so that runs with other seeds have other tasks.
        needs_tasks: False if the tasks come from elsewhere, such as records.

    Returns:
        The plan: every task once by default, 64 tasks where they are generated without end.

    Raises:
        ValueError: If the numbers make no sense.
        gymnasium.error.Error: If the id is unknown.
        DataError: If tasks are wrong or missing.
    """
    for name, value in (("episodes", episodes), ("limit", limit), ("repeats", repeats)):
        if value is not None and value < 1:
            raise ValueError(f"{name} is 1 or more, got {value}.")
    if episodes is not None and (limit is not None or repeats != 1):
        raise ValueError("Give either `episodes` or `limit` and `repeats`, not both.")
    if seed < 0:
        raise ValueError(f"seed is 0 or more, got {seed}.")
    if (env_kwargs or {}).get("sampler") is not None:
        raise ValueError("The tasks of these episodes are given: the sampler is an argument of `rollout` or `stream`.")
    factory = EnvFactory(env, tasks=tasks, env_kwargs=env_kwargs) if isinstance(env, str) else env
    if factory.tasks is None and needs_tasks:
        raise DataError(
            f"{factory.env_id} has no tasks of its own. Give some: tasks=..., or --tasks FILE; or write `generate`."
        )
    if factory.scores_groups and needs_tasks and repeats < 2:
        raise ValueError(f"{factory.env_id} scores a task's episodes as a group: give 2 or more `repeats`.")
    size = factory.tasks.size if factory.tasks is not None else None
    first_task = seed * _SEED_STRIDE if size is None else 0
    if isinstance(factory.tasks, GeneratedTasks) and needs_tasks:
        factory.tasks.check(first_task)
    if episodes is not None:
        num_tasks = min(size or episodes, episodes)
        each = -(-episodes // num_tasks)
        note = f"{factory.env_id} has {num_tasks:,} tasks: {episodes:,} episodes play each up to {each:,} times."
        return Plan(factory, num_tasks, each, episodes, first_task, interleaved=True, note=note if each > 1 else "")
    num_tasks = min(number for number in (limit, size) if number) if limit or size else _DEFAULT_GENERATED
    note = ""
    if limit is not None and num_tasks < limit:
        note = f"{factory.env_id} has {num_tasks:,} tasks, fewer than the limit of {limit:,}: all are played."
    return Plan(factory, num_tasks, repeats, num_tasks * repeats, first_task, note=note)
