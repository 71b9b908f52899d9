"""Playing in other processes, over Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from gym_llm.engines import Engine, capabilities
from gym_llm.engines.specs import model_spec
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.ray.shard_actor import ShardConfig
from gym_llm.rollouts.ray.shard_client import RemoteShard, RemoteWorker, close_shards, end_shards, start_shards
from gym_llm.rollouts.ray.shared_engine import shared_engine
from gym_llm.rollouts.settings import RolloutSettings


@asynccontextmanager
async def open_ray_workers(
    factory: EnvFactory,
    num_envs: int,
    engine: str | Engine,
    engine_options: dict[str, Any],
    settings: RolloutSettings,
) -> AsyncGenerator[list[RemoteWorker], None]:
    """Open a worker in each of `settings.workers` processes; see `gym_llm.rollouts.play.open_local_workers`."""
    if not isinstance(engine, str):
        raise ValueError("With workers the engine is a spec such as 'http://host:port/v1', made in every process.")
    recipe = ShardConfig.of(
        **factory.arguments, num_envs=num_envs, env_wrappers=settings.env_wrappers, step_timeout=settings.step_timeout
    )
    count, packages = min(settings.workers, num_envs), settings.runtime_env
    if isinstance(packages, Sequence):
        packages = packages[:count]
    shards = start_shards(recipe, count, runtime_env=packages, ray_address=settings.ray_address)
    try:
        async with workers_in(shards, engine, engine_options, settings) as workers:
            yield workers
    finally:
        close_shards(shards)
        end_shards(shards)


@asynccontextmanager
async def workers_in(
    shards: Sequence[RemoteShard],
    engine: str,
    engine_options: dict[str, Any],
    settings: RolloutSettings,
) -> AsyncGenerator[list[RemoteWorker], None]:
    """Make workers of running shards, each with its own engine client. Nothing else may use the shards meanwhile.

    An engine whose capabilities have `shared` exists once: it fills a GPU and batches better with more requests. Of
    other engines (HTTP clients, small models), every process has its own.
    """
    inner, options = model_spec(engine, engine_options)
    shared = capabilities(inner).shared
    async with shared_engine(inner, options) if shared else nullcontext(inner) as spec:
        options = {} if shared else options
        if inner is not engine:  # an agent, say: each process has its own, around the one that is shared
            spec, options = engine, {**engine_options, "engine": spec, "engine_options": options}
        workers = [RemoteWorker(shard, (spec, options, settings.for_workers())) for shard in shards]
        try:
            await asyncio.gather(*(worker.start() for worker in workers))
            yield workers
        finally:
            await asyncio.gather(*(worker.aclose() for worker in workers), return_exceptions=True)
