"""Playing in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from gym_llm.engines import make_engine
from gym_llm.engines.base import Engine
from gym_llm.rollout.factory import EnvFactory
from gym_llm.rollout.settings import RolloutSettings
from gym_llm.rollout.shard import Shard
from gym_llm.rollout.worker import Worker


@asynccontextmanager
async def open_workers(
    factory: EnvFactory, num_envs: int, engine: str | Engine, engine_options: dict[str, Any], settings: RolloutSettings
) -> AsyncGenerator[list[Worker], None]:
    """One worker in this process, for as long as the context lasts; see `gym_llm.rollout.play.OpenWorkers`."""
    shard = Shard(factory, num_envs, settings.env_wrappers)
    try:
        async with _started(engine, engine_options) as player:
            worker = Worker(shard, player, settings)
            try:
                yield [worker]
            finally:
                await worker.aclose()
    finally:
        await shard.aclose()


@asynccontextmanager
async def _started(engine: str | Engine, options: dict[str, Any]) -> AsyncGenerator[Engine, None]:
    """An engine that the caller started as it is; one made from a spec for as long as it is needed."""
    if isinstance(engine, Engine):
        yield engine
        return
    async with make_engine(engine, **options) as made:
        yield made
