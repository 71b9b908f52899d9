"""Which episodes a run consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from gym_llm.rollout.factory import EnvFactory
from gym_llm.types import Row

_DEFAULT_GENERATED = 64
_SEED_STRIDE = 1 << 32
_MIX = 0x9E3779B97F4A7C15  # the golden ratio's bits: neighbouring seeds give unrelated environments
_MASK = (1 << 63) - 1


class Job(NamedTuple):
    """One episode to play."""

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
        num_tasks: How many different tasks are played.
        repeats: How often each (the last ones once less often where `episodes` is no multiple of the number of tasks).
        length: Number of episodes.
        first_task: Index of the first task.
        interleaved: Whether all tasks are played once before any is repeated.
    """

    factory: EnvFactory
    num_tasks: int
    repeats: int
    length: int
    first_task: int = 0
    interleaved: bool = False

    def __len__(self) -> int:
        """Number of episodes."""
        return self.length

    def jobs(self) -> Iterator[Job]:
        """The episodes."""
        for n in range(self.length):
            task, repeat = (n % self.num_tasks, n // self.num_tasks) if self.interleaved else divmod(n, self.repeats)
            yield Job(self.first_task + task, repeat)


def open_plan(
    env_id: str,
    *,
    tasks: str | list[Row] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    episodes: int | None = None,
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
) -> Plan:
    """Make the environment once, so that whatever is wrong with it shows now, and count its episodes.

    Args:
        env_id: A registered id.
        tasks: Overrides the environment's tasks; see `VerifierEnv`.
        env_kwargs: Further arguments of the environment.
        episodes: Play this many, going through the tasks again and again; not together with `limit` or `repeats`.
        limit: Play only the first tasks, this many.
        repeats: Play each task so many times.
        seed: Generated tasks begin at index `seed * 2**32`, so that runs with other seeds have other tasks.

    Returns:
        The plan: every task once by default, 64 tasks where they are generated without end.

    Raises:
        ValueError: If the numbers make no sense.
        gymnasium.error.Error: If the id is unknown.
        DataError: If tasks are wrong.
    """
    _check(episodes, limit, repeats, seed)
    factory = EnvFactory(env_id, tasks=tasks, env_kwargs=env_kwargs)
    return make_plan(factory, episodes=episodes, limit=limit, repeats=repeats, seed=seed)


def make_plan(
    factory: EnvFactory,
    *,
    episodes: int | None = None,
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
) -> Plan:
    """`open_plan` for environments that can be made already.

    Args:
        factory: Makes them.
        episodes: See `open_plan`, as for the others.
        limit: Play only the first tasks, this many.
        repeats: Play each task so many times.
        seed: Chooses generated tasks.

    Raises:
        ValueError: If the numbers make no sense.
    """
    _check(episodes, limit, repeats, seed)
    size = factory.num_tasks
    first_task = seed * _SEED_STRIDE if size is None else 0
    if episodes is not None:
        num_tasks = min(size or episodes, episodes)
        return Plan(factory, num_tasks, -(-episodes // num_tasks), episodes, first_task, interleaved=True)
    num_tasks = min(limit or _DEFAULT_GENERATED, size or (limit or _DEFAULT_GENERATED)) if limit or not size else size
    return Plan(factory, num_tasks, repeats, num_tasks * repeats, first_task)


def _check(episodes: int | None, limit: int | None, repeats: int, seed: int) -> None:
    for name, value in (("episodes", episodes), ("limit", limit), ("repeats", repeats)):
        if value is not None and value < 1:
            raise ValueError(f"{name} is 1 or more, got {value}.")
    if episodes is not None and (limit is not None or repeats != 1):
        raise ValueError("Give either `episodes` or `limit` and `repeats`, not both.")
    if seed < 0:
        raise ValueError(f"seed is 0 or more, got {seed}.")
