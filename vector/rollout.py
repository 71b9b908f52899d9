"""Rollouts: an environment id and an engine in, records out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from gym_llm.concurrency import wait
from gym_llm.engines import make_engine
from gym_llm.engines.base import Engine, EngineError
from gym_llm.engines.sampling import PASSED_ON, check_sampling
from gym_llm.nearest import nearest
from gym_llm.types import Request, Rollout, Row
from gym_llm.vector.factory import Wrap
from gym_llm.vector.local import LocalVectorEnv
from gym_llm.vector.plan import Plan, open_plan
from gym_llm.vector.ray_vector_env import RayVectorEnv
from gym_llm.wrappers import ReasoningParser, TokenIdTracking, ToolCallParser

DEFAULT_WRAPPERS: tuple[Wrap, ...] = (ToolCallParser, ReasoningParser, TokenIdTracking)
"""Innermost first: reasoning is taken out of the text before tool calls are looked for in what is left.

`TokenIdTracking` does nothing where the engine reports no token ids.
"""


async def rollout(
    env_id: str,
    engine: str | Engine = "pocket",
    *,
    tasks: str | list[Row] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Wrap] | None = None,
    episodes: int | None = None,
    limit: int | None = None,
    repeats: int = 1,
    concurrency: int = 64,
    seed: int = 0,
    sampling: dict[str, Any] | None = None,
    skip: Container[tuple[int, int]] = frozenset(),
    engine_options: dict[str, Any] | None = None,
    workers: int = 0,
    ray_address: str | None = None,
    on_waiting: Callable[[dict[str, int]], None] | None = None,
) -> AsyncGenerator[Rollout, None]:
    """Play episodes in this process, many at once, and yield each as it finishes.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        engine: A spec (`"pocket"`, `"http://host:port/v1"`, …; opened and closed here) or an engine that you started.
        tasks: A JSON Lines path or a list of rows instead of the environment's own tasks.
        env_kwargs: Further arguments of the environment.
        wrappers: What each environment is wrapped with, innermost first; None for `DEFAULT_WRAPPERS`.
        episodes: Play this many, going through the tasks again and again; not together with `limit` or `repeats`.
        limit: Play only the first tasks, this many.
        repeats: Play each task so many times.
        concurrency: Episodes at once.
        seed: Chooses generated tasks, the environments' randomness, and the sampling of engines that run here.
        sampling: Request fields to set over the tasks' own, e.g. `{"temperature": 0.7, "max_output_tokens": 64}`.
        skip: Pairs (task index, repeat index) that are not to be played.
        engine_options: Arguments of the engine that the spec names.
        workers: Processes to play in, over Ray; 0 for this one alone. The engine has to be a spec then.
        ray_address: A cluster's address; None for a Ray of this machine's own.
        on_waiting: Called once a second with how many episodes wait for what: `engine`, `tool`, `verifier`, `env`.

    Yields:
        Records in the order of finishing; an episode that fails is a record with an `error`.

    Raises:
        ValueError: If the numbers make no sense, or the engine's spec is unknown.
        gymnasium.error.Error: If the environment is unknown.
        DataError: If tasks are wrong.
        EngineUnavailable: If the engine cannot be used.
        RayUnavailable: If there are to be workers and Ray cannot be used.
    """
    plan = open_plan(
        env_id, tasks=tasks, env_kwargs=env_kwargs, episodes=episodes, limit=limit, repeats=repeats, seed=seed
    )
    played = play_plan(
        plan,
        engine,
        wrappers=wrappers,
        concurrency=concurrency,
        sampling=sampling,
        skip=skip,
        engine_options=engine_options,
        workers=workers,
        ray_address=ray_address,
        on_waiting=on_waiting,
    )
    async with aclosing(played) as records:
        async for record in records:
            yield record


async def play_plan(
    plan: Plan,
    engine: str | Engine = "pocket",
    *,
    wrappers: Sequence[Wrap] | None = None,
    concurrency: int = 64,
    sampling: dict[str, Any] | None = None,
    skip: Container[tuple[int, int]] = frozenset(),
    engine_options: dict[str, Any] | None = None,
    workers: int = 0,
    ray_address: str | None = None,
    on_waiting: Callable[[dict[str, int]], None] | None = None,
) -> AsyncGenerator[Rollout, None]:
    """`rollout` of a plan that is open already.

    Args:
        plan: Which episodes, of which environment.
        engine: See `rollout`, as for all else.
        wrappers: What each environment is wrapped with.
        concurrency: Episodes at once.
        sampling: Request fields to set over the tasks' own.
        skip: Pairs (task index, repeat index) that are not to be played.
        engine_options: Arguments of the engine that the spec names.
        workers: Processes to play in.
        ray_address: A cluster's address.
        on_waiting: Called once a second with how many episodes wait for what.

    Yields:
        Records in the order of finishing.

    Raises:
        Exception: As `rollout`, but for what is wrong with the environment and its tasks.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is 1 or more, got {concurrency}.")
    if sampling:
        _check_sampling(sampling)
    num_envs = min(concurrency, len(plan))
    env_wrappers = DEFAULT_WRAPPERS if wrappers is None else wrappers
    jobs = (job for job in plan.jobs() if job not in skip)
    playing: dict[str, Any] = {"seed": plan.seed, "sampling": sampling, "on_waiting": on_waiting}
    if workers:
        if not isinstance(engine, str):
            raise ValueError("With workers the engine is a spec such as 'http://host:port/v1', made in every process.")
        spread = RayVectorEnv(
            **plan.factory.arguments,
            num_envs=num_envs,
            num_shards=min(workers, num_envs),
            env_wrappers=env_wrappers,
            ray_address=ray_address,
        )
        with spread:
            async with aclosing(spread.rollout(engine, jobs, engine_options=engine_options, **playing)) as records:
                async for record in records:
                    yield record
        return
    with LocalVectorEnv(plan.factory, num_envs, env_wrappers=env_wrappers) as envs:
        async with (
            _opened(engine, engine_options) as player,
            aclosing(envs.rollout(player, jobs, **playing)) as records,
        ):
            async for record in records:
                yield record


def _check_sampling(sampling: dict[str, Any]) -> None:
    """Refuse what no engine takes, and names that are nearly right; others are for a server to know.

    Raises:
        ValueError: If a name is misspelt or a value of the wrong kind.
    """
    from gym_llm.responses import ResponseCreateParams

    known = {*ResponseCreateParams.model_fields, *PASSED_ON}
    for name in sampling:
        if name not in known and (hint := nearest(name, known, cutoff=0.8)):
            raise ValueError(f"A request has no field {name!r}.{hint}")
    try:
        check_sampling(cast(Request, sampling))
    except EngineError as error:
        raise ValueError(f"sampling: {error}") from None


@asynccontextmanager
async def _opened(engine: str | Engine, options: dict[str, Any] | None) -> AsyncGenerator[Engine, None]:
    """An engine that the caller started as it is; one made from a spec for as long as it is needed."""
    if isinstance(engine, Engine):
        yield engine
        return
    async with make_engine(engine, **(options or {})) as made:
        yield made


def collect(env_id: str, engine: str | Engine = "pocket", **kwargs: Any) -> list[Rollout]:
    """Play episodes and return their records, sorted by task and repeat.

    Args:
        env_id: A registered id.
        engine: See `rollout`.
        **kwargs: As for `rollout`.

    Raises:
        Exception: As `rollout`.
    """

    async def gather() -> list[Rollout]:
        return [record async for record in rollout(env_id, engine, **kwargs)]

    records = wait(gather())
    return sorted(records, key=lambda record: tuple(record["rollout_id"].values()))
