"""Rollouts: an environment id and an engine in, records out."""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Container, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, cast, overload

from gym_llm.concurrency import wait
from gym_llm.core.task_sampler import TaskSampler
from gym_llm.engines import make_engine
from gym_llm.engines.engine import Engine
from gym_llm.engines.specs import seeded_options
from gym_llm.errors import TooManyFailures, UsageError
from gym_llm.records.failures import TRANSIENT, MaskedCauses
from gym_llm.rollouts.durable.journal import Journal
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.episode_bar import episode_bar
from gym_llm.rollouts.episode_worker import EpisodeWorker
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.group_scores import GroupScorer, check_plays_groups, scored_groups
from gym_llm.rollouts.groups import Group, GroupJobs
from gym_llm.rollouts.made_by import made_by as identity_of
from gym_llm.rollouts.plan import Job, Plan, open_plan
from gym_llm.rollouts.scheduler import AnyWorker, schedule
from gym_llm.rollouts.settings import RolloutSettings, SettingOptions
from gym_llm.rollouts.stream_jobs import StreamJobs
from gym_llm.rollouts.task_draws import TaskDraws
from gym_llm.types import MadeByKey, Rollout, Row
from gym_llm.utils.secrets import redact, redacted_logger
from gym_llm.utils.text import printable


class RolloutOptions(SettingOptions, total=False):
    """The keyword arguments of `rollout` for single episodes."""

    tasks: str | list[Row] | None
    env_kwargs: dict[str, Any] | None
    episodes: int | None
    limit: int | None
    repeats: int
    skip: Container[tuple[int, int]]
    engine_options: dict[str, Any] | None
    settings: RolloutSettings | None


logger = redacted_logger(__name__)
_PLAN = ("tasks", "env_kwargs", "episodes", "limit", "repeats")


@overload
def rollout(
    env_id: str,
    engine: str | Engine = ...,
    *,
    tasks: str | list[Row] | None = ...,
    env_kwargs: dict[str, Any] | None = ...,
    episodes: int | None = ...,
    limit: int | None = ...,
    repeats: int = ...,
    group_size: None = ...,
    skip: Container[tuple[int, int]] = ...,
    sampler: TaskSampler | None = ...,
    engine_options: dict[str, Any] | None = ...,
    settings: RolloutSettings | None = ...,
    **more: Unpack[SettingOptions],
) -> AsyncGenerator[Rollout, None]: ...


@overload
def rollout(
    env_id: str,
    engine: str | Engine = ...,
    *,
    tasks: str | list[Row] | None = ...,
    env_kwargs: dict[str, Any] | None = ...,
    limit: int | None = ...,
    group_size: int,
    drop_equal: bool = ...,
    settle_after: int | None = ...,
    dropped: Counter[str] | None = ...,
    sampler: TaskSampler | None = ...,
    engine_options: dict[str, Any] | None = ...,
    settings: RolloutSettings | None = ...,
    **more: Unpack[SettingOptions],
) -> AsyncGenerator[Group, None]: ...


async def rollout(
    env_id: str,
    engine: str | Engine = "pocket",
    *,
    tasks: str | list[Row] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    episodes: int | None = None,
    limit: int | None = None,
    repeats: int = 1,
    group_size: int | None = None,
    drop_equal: bool = False,
    settle_after: int | None = None,
    dropped: Counter[str] | None = None,
    skip: Container[tuple[int, int]] = frozenset(),
    sampler: TaskSampler | None = None,
    engine_options: dict[str, Any] | None = None,
    settings: RolloutSettings | None = None,
    **more: Unpack[SettingOptions],
) -> AsyncGenerator[Rollout, None] | AsyncGenerator[Group, None]:
    """Play episodes, many at once, and yield each as it finishes; with `group_size`, groups of them.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        engine: A spec (`"pocket"`, `"http://host:port/v1"`, …; opened and closed here) or an engine that you started.
        tasks: A JSON Lines path or a list of rows instead of the environment's own tasks.
        env_kwargs: Further arguments of the environment.
        episodes: Play this many, going through the tasks again and again; not together with `limit` or `repeats`.
        limit: Play only the first tasks, this many.
        repeats: Number of times that each task is played.
        group_size: Play each task this many times, and yield its records together as a list sorted by repeat index,
            as soon as all are finished. Not together with `episodes`, `repeats` or `skip`.
        drop_equal: Drop groups whose rewards are all equal: their advantages are 0. Break when you have enough.
        settle_after: Play this many episodes of a group first, and the others only if the rewards of these differ.
        dropped: Counts dropped groups by reason: `"equal"`, `"settled"` (after the first ones), `"masked"` (fewer than
            two are scored); and their `"episodes"`.
        skip: Pairs (task index, repeat index) to leave out.
        sampler: Draws the tasks by their rewards, `limit` times; by default as often as there are tasks. A task that is
            drawn again has other repeat indexes. Not together with `episodes`, `skip` or `durable`.
        engine_options: Arguments of the engine that the spec names; one whose sampling always has a seed gets `seed`.
        settings: How they are played.
        **more: Or the settings one by one: `concurrency`, `seed`, `sampling`, `wrappers`, `step_timeout`, `workers`,
            `ray_address`, `runtime_env`, `on_waiting`; see `RolloutSettings`.

    Yields:
        Records in the order of finishing, or groups in that order; an episode that fails is a masked one.

    Raises:
        TypeError: If a setting is unknown.
        ValueError: If the numbers make no sense, or the engine's spec is unknown.
        gymnasium.error.Error: If the environment is unknown.
        DataError: If tasks are wrong.
        EngineUnavailable: If the engine cannot be used.
        RayUnavailable: If there are to be workers and Ray cannot be used.
    """
    settings = RolloutSettings.of(settings, **more)
    if group_size is not None:
        if group_size < 2:
            raise ValueError(f"A group has 2 or more episodes; got group_size={group_size}.")
        if episodes is not None or repeats != 1 or skip:
            raise ValueError(
                "With `group_size` give `limit`, the number of tasks; not `episodes`, `repeats` or `skip`."
            )
        repeats = group_size
    elif drop_equal or settle_after is not None or dropped is not None:
        raise ValueError("`drop_equal`, `settle_after` and `dropped` are for groups: give `group_size`, too.")
    plan = open_plan(
        env_id, tasks=tasks, env_kwargs=env_kwargs, episodes=episodes, limit=limit, repeats=repeats, seed=settings.seed
    )
    draws = groups = None
    if sampler is not None:
        if episodes is not None or skip or settings.durable:
            raise ValueError("With `sampler` give `limit`, the number of draws; not `episodes`, `skip` or `durable`.")
        if plan.factory.scores_groups:
            raise UsageError(f"{env_id} scores groups of episodes, whose tasks a sampler does not draw: leave it out.")
        draws = TaskDraws(sampler, plan.factory.tasks)
        count = limit or plan.num_tasks
        plan = replace(plan, num_tasks=count, length=count * plan.repeats)
    if group_size is not None or draws is not None:
        counts = Counter() if dropped is None else dropped
        groups = GroupJobs(plan, drop_equal=drop_equal, settle_after=settle_after, dropped=counts, draws=draws)
    finished = iter_records(plan, engine, settings, groups, skip=skip, engine_options=engine_options)
    first, is_scored = None, False
    async with aclosing(finished) as records:
        async for record in records:
            first, is_scored = first or record, is_scored or record["reward"] is not None
            if group_size is None:
                yield record
            while groups is not None and (group := groups.take()) is not None:
                if group_size is not None:
                    yield group
    if first is not None and not is_scored:
        logger.error("No episode has a score: all are masked, the first so: %s", printable(first["error"] or ""))


async def iter_records(
    plan: Plan,
    engine: str | Engine,
    settings: RolloutSettings,
    jobs: Iterable[Job] | None = None,
    *,
    skip: Container[tuple[int, int]] = frozenset(),
    engine_options: dict[str, Any] | None = None,
    made_by: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Rollout, None]:
    """Play the episodes of a plan; arguments and errors are those of `rollout`.

    Args:
        plan: Its environment has been made, and its tasks read.
        engine: A spec, or a started engine.
        settings: How the episodes are played.
        jobs: Play these instead of the whole plan; see `schedule`.
        skip: Jobs of the plan to leave out.
        engine_options: Arguments of the engine, if it is a spec.
        made_by: What the records are made by; None for what the other arguments say.

    Yields:
        Records in the order of finishing.
    """
    if settings.durable is True:
        raise ValueError("durable=True is for a Run with an output; here `durable` is the folder of the journal.")
    if made_by is None:  # in a thread: files that arguments name may be long
        made_by = (await asyncio.to_thread(identity_of, plan.factory, engine, engine_options, settings)).key
        if isinstance(engine, Engine):
            made_by = {**made_by, "model": redact(engine.model)}
    num_envs = min(settings.concurrency, len(plan))
    jobs = jobs if jobs is not None else (job for job in plan.jobs() if job not in skip)
    options = seeded_options(engine, engine_options, settings.seed) if isinstance(engine, str) else {}
    scores_groups = plan.factory.scores_groups
    if scores_groups:
        _check_groups(plan, settings, jobs, skip)
    causes = MaskedCauses(is_logged=not settings.workers)
    async with (
        _open_workers(plan.factory, num_envs, engine, options, settings) as workers,
        aclosing(schedule(workers, jobs, settings.on_waiting, finishes=not scores_groups)) as played,
        aclosing(_in_scored_groups(plan, settings, jobs, played, workers) if scores_groups else played) as records,
    ):
        async for record in records:
            record["made_by"] = cast(MadeByKey, made_by)
            causes.see(record)
            yield record
            if settings.durable and not scores_groups:  # the caller has written this record before it asks for the next
                _let_go([record], workers)


def _check_groups(plan: Plan, settings: RolloutSettings, jobs: Iterable[Job], skip: Container[tuple[int, int]]) -> None:
    """Raise ValueError if a verifier of groups would not get whole ones."""
    env_id = plan.factory.env_id
    check_plays_groups(plan.factory, settings.env_wrappers)
    if isinstance(jobs, GroupJobs) and jobs.settles:
        raise ValueError(f"{env_id} scores whole groups: leave `settle_after` out.")
    if plan.interleaved:
        raise ValueError(f"{env_id} scores a task's episodes as a group: give `limit` and `repeats`, not `episodes`.")
    for task in range(plan.first_task, plan.first_task + plan.num_tasks if skip else plan.first_task):
        if 0 < sum((task, repeat) in skip for repeat in range(plan.repeats)) < plan.repeats:
            raise ValueError(f"{env_id} scores whole groups: `skip` all episodes of task {task}, or no episode.")


def _let_go(records: Sequence[Rollout], workers: Sequence[AnyWorker]) -> bool:
    """Remove written records from the journals, unless a failure may pass: `retry_failed` goes on with them then."""
    if any(record["failure_kind"] in TRANSIENT for record in records):
        return False
    for worker in workers:
        for record in records:
            worker.recorded(Job(**record["rollout_id"]))
    return True


async def _in_scored_groups(
    plan: Plan,
    settings: RolloutSettings,
    jobs: Iterable[Job],
    played: AsyncIterator[Rollout],
    workers: Sequence[AnyWorker],
) -> AsyncGenerator[Rollout, None]:
    """Yield the records of each group that `verify_group` has scored; `jobs` learns of them only now."""
    journal = Journal(Path(settings.durable)) if isinstance(settings.durable, str) else None
    options: dict[str, Any] = {"step_timeout": settings.step_timeout, "retries": settings.retries, "journal": journal}
    # The groups of a stream grow old while they wait.
    waiting = {"most_waiting": -(-settings.concurrency // plan.repeats)} if isinstance(jobs, StreamJobs) else {}
    async with (
        aclosing(GroupScorer(plan.factory, **options)) as scorer,
        aclosing(scored_groups(played, scorer, plan.repeats, **waiting)) as groups,
    ):
        async for group in groups:
            for record in group:
                if isinstance(jobs, GroupJobs | StreamJobs):
                    jobs.finished(Job(**record["rollout_id"]), record)
                yield record
            if settings.durable and _let_go(group, workers):
                scorer.recorded(group)


def _open_workers(
    factory: EnvFactory,
    num_envs: int,
    engine: str | Engine,
    engine_options: dict[str, Any],
    settings: RolloutSettings,
) -> AbstractAsyncContextManager[Sequence[AnyWorker]]:
    if not settings.workers:
        return open_local_workers(factory, num_envs, engine, engine_options, settings)
    from gym_llm.rollouts.ray.ray_workers import open_ray_workers  # Ray is an optional dependency

    return open_ray_workers(factory, num_envs, engine, engine_options, settings)


@asynccontextmanager
async def open_local_workers(
    factory: EnvFactory,
    num_envs: int,
    engine: str | Engine,
    engine_options: dict[str, Any],
    settings: RolloutSettings,
) -> AsyncGenerator[list[EpisodeWorker], None]:
    """Open one worker in this process.

    Args:
        factory: Makes the environments.
        num_envs: Episodes at once.
        engine: A spec, or a started engine.
        engine_options: Arguments of the engine, if it is a spec.
        settings: How the episodes are played.
    """
    async with aclosing(EnvSlots(factory, num_envs, settings.env_wrappers)) as pool:
        opened = nullcontext(engine) if isinstance(engine, Engine) else make_engine(engine, **engine_options)
        async with opened as started, aclosing(EpisodeWorker(pool, started, settings)) as worker:
            yield [worker]


def collect(
    env_id: str, engine: str | Engine = "pocket", *, progress: bool | None = None, **kwargs: Unpack[RolloutOptions]
) -> list[Rollout]:
    """Play episodes and return their records, sorted by task and repeat; arguments and errors are `rollout`'s.

    Args:
        env_id: As for `rollout`, like all others.
        engine: Who plays.
        progress: Whether a bar on stderr shows how far it is; None: on a terminal, if it takes longer than two seconds.
        **kwargs: `rollout`'s.

    Raises:
        TooManyFailures: If every episode is masked. If some are, it warns.
    """
    options: dict[str, Any] = {**kwargs}
    planned = {name: options.pop(name) for name in _PLAN if name in options}
    played = {name: options.pop(name) for name in ("skip", "engine_options") if name in options}
    settings = RolloutSettings.of(options.pop("settings", None), **options)

    async def gather() -> list[Rollout]:
        plan = open_plan(env_id, **planned, seed=settings.seed)
        finished = []
        with episode_bar(len(plan), progress) as count:
            async with aclosing(iter_records(plan, engine, settings, **played)) as records:
                async for record in records:
                    finished.append(record)
                    count(record)
        return finished

    records = wait(gather())
    _report_failures(records)
    return sorted(records, key=lambda record: tuple(record["rollout_id"].values()))


def _report_failures(records: Sequence[Rollout]) -> None:
    masked = [record for record in records if record["reward"] is None]
    if not masked:
        return
    verb = "is" if len(masked) == 1 else "are"
    sentence = f"{len(masked)} of {len(records)} episodes {verb} masked, the first one so: {masked[0]['error']}"
    if len(masked) == len(records):
        raise TooManyFailures(f"{sentence}\n{masked[0]['traceback'] or ''}".rstrip())
    warnings.warn(sentence, stacklevel=3)
