"""The tasks that Inspect finds by the entry point `inspect_ai`: every benchmark, every environment, and `gym_llm/env`.

`inspect eval gym_llm/gsm8k`, `inspect eval gym_llm/Weather-v0 -T tasks=rows.jsonl`.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from inspect_ai import Task
from inspect_ai import task as inspect_task

from gym_llm.core.registry.env_files import not_found
from gym_llm.core.registry.ids import env_ids, their_names
from gym_llm.data.recipes.catalogue import benchmarks
from gym_llm.errors import UsageError
from gym_llm.rollouts.benchmarks import benchmark_part
from gym_llm.rollouts.plan import open_plan

_OURS = "gym_llm/"


@inspect_task(name="env")
def any_env(
    env: str,
    tasks: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
) -> Task:
    """Play any environment: an id of another package, a file, `textarena:TicTacToe-v0`.

    Args:
        env: The environment, as for `gym-llm rollout`.
        tasks: A source of tasks; None for the environment's own.
        env_kwargs: Its further arguments.
        limit: How many tasks there are; None for all, 64 if they are generated without end.
        repeats: How often each task is played: epochs.
        seed: Seeds the environments, and which tasks are generated.

    Raises:
        UsageError: If the environment or its tasks cannot be used.
    """
    return _task(env, tasks, env_kwargs, limit, repeats, seed)


def _task(
    env: str,
    tasks: str | None,
    env_kwargs: dict[str, Any] | None,
    limit: int | None,
    repeats: int,
    seed: int,
    sampling: dict[str, Any] | None = None,
) -> Task:
    from gym_llm.evaluation.inspect_tasks.task import make_task

    try:
        plan = open_plan(env, tasks=tasks, env_kwargs=env_kwargs, limit=limit, repeats=repeats, seed=seed)
    except gym.error.UnregisteredEnv:
        raise not_found(env) from None
    except (gym.error.Error, TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    return make_task(plan, sampling=sampling, seed=seed)


def _add_environment(env_id: str) -> None:
    @inspect_task(name=env_id.removeprefix(_OURS))
    def made(
        tasks: str | None = None,
        env_kwargs: dict[str, Any] | None = None,
        limit: int | None = None,
        repeats: int = 1,
        seed: int = 0,
    ) -> Task:
        return _task(env_id, tasks, env_kwargs, limit, repeats, seed)


def _add_benchmark(name: str) -> None:
    @inspect_task(name=name)
    def made(
        variant: str | None = None,
        judge: str | None = None,
        env_kwargs: dict[str, Any] | None = None,
        limit: int | None = None,
        repeats: int | None = None,
        seed: int = 0,
    ) -> Task:
        given = {**(env_kwargs or {}), **({"judge": judge} if judge else {})}
        part = benchmark_part(f"{name}:{variant}" if variant else name, env_kwargs=given, repeats=repeats)
        return _task(
            part.env_id, str(part.tasks), dict(part.env_kwargs), limit, part.repeats, seed, dict(part.sampling)
        )


for _env_id in (*env_ids(), *their_names().values()):
    if _env_id.startswith(_OURS):
        _add_environment(_env_id)
for _name, _benchmark in benchmarks().items():
    for _each in (_name, *_benchmark.aliases):
        _add_benchmark(_each)
