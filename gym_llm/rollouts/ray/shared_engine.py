"""A shared engine: one Ray actor for all shards of a run, if an engine per shard would be too large."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from gym_llm.engines import engine_class
from gym_llm.errors import EngineUnavailable, RayUnavailable
from gym_llm.rollouts.ray.codec import first_line
from gym_llm.rollouts.ray.connection import connect, watch
from gym_llm.rollouts.ray.engine_actor import EngineActor

_CLOSING_SECONDS = 30.0


@asynccontextmanager
async def shared_engine(
    spec: str,
    options: dict[str, Any] | None = None,
    *,
    ray_address: str | None = None,
    on_this_machine: bool = False,
) -> AsyncGenerator[str, None]:
    """Start an engine (`gym_llm.make_engine`) in a Ray actor; it ends with the context.

    Args:
        spec: The engine's.
        options: Its arguments.
        ray_address: A cluster's; None for a Ray of this machine's own.
        on_this_machine: Whether it must run on this machine, because it reads folders that this process writes.

    Yields:
        A spec, `actor:NAME`, for every process of the same Ray job. `RayVectorEnv.rollout` accepts it any number of
        times, and `make_engine` gives access to `update_weights`, `sleep` and `wake_up`.

    Raises:
        EngineUnavailable: If the engine cannot start, or no machine (this one) has the GPUs that it needs.
        RayUnavailable: If Ray cannot be used.
    """
    ray = connect(ray_address)
    ray_watch = watch()
    options = options or {}
    gpus = engine_class(spec).gpus(options) if ray.cluster_resources().get("GPU", 0) else 0
    if gpus > ray.available_resources().get("GPU", 0):
        raise EngineUnavailable(f"{spec} needs {gpus} GPUs, and Ray has fewer free.")
    where = _here(ray, spec, gpus) if on_this_machine else None
    name = f"engine-{uuid.uuid4().hex[:12]}"
    # Should its process end, Ray makes another, in which the engine starts when it is asked.
    remote = ray.remote(EngineActor).options(
        name=name, num_cpus=0, num_gpus=gpus, max_restarts=-1, scheduling_strategy=where
    )
    actor = remote.remote(spec, options, name)
    try:
        try:
            await ray_watch.result(actor.start.remote())
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise EngineUnavailable(f"The process that {spec} was to run in has ended: {first_line(error)}") from None
        yield f"actor:{name}"
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                await ray_watch.result(actor.aclose.remote())
        except (TimeoutError, RayUnavailable, ray.exceptions.RayError):
            pass  # it ends now in any case
    finally:
        if ray_watch.is_here():
            ray.kill(actor)


def _here(ray: Any, spec: str, gpus: int) -> Any:
    """This machine and no other, as Ray's scheduling strategy."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if ray.util.client.ray.is_connected():
        raise EngineUnavailable(
            f"{spec} must run on this machine, which is not in the cluster: start on a machine of it, without ray://."
        )
    here = ray.get_runtime_context().get_node_id()
    (resources,) = [node["Resources"] for node in ray.nodes() if node["NodeID"] == here]
    if gpus > resources.get("GPU", 0):
        raise EngineUnavailable(f"{spec} needs {gpus} GPUs on this machine, and Ray has fewer here.")
    return NodeAffinitySchedulingStrategy(here, soft=False)
