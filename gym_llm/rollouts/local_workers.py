"""Playing in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from typing import Any

from gym_llm.engines import make_engine
from gym_llm.engines.engine import Engine
from gym_llm.rollouts.episode_worker import Worker
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.pool import Shard
from gym_llm.rollouts.settings import RolloutSettings


@asynccontextmanager
async def open_workers(
    factory: EnvFactory, num_envs: int, engine: str | Engine, engine_options: dict[str, Any], settings: RolloutSettings
) -> AsyncGenerator[list[Worker], None]:
    """One worker in this process, for as long as the context lasts; see `gym_llm.rollouts.play.OpenWorkers`."""
    async with aclosing(Shard(factory, num_envs, settings.env_wrappers)) as shard:
        player: AbstractAsyncContextManager[Engine] = (
            nullcontext(engine) if isinstance(engine, Engine) else make_engine(engine, **engine_options)
        )
        async with player as started_engine, aclosing(Worker(shard, started_engine, settings)) as worker:
            yield [worker]
