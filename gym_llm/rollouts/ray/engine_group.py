"""ActorEngines: several engines in Ray actors that play together, and take the same weights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any

from gym_llm.engines.around import conversation_of
from gym_llm.engines.engine import Capabilities, Engine, EpisodeReport
from gym_llm.engines.scores import Scores
from gym_llm.engines.weights import UpdateMode, Weights, all_of, check_update, to_its_end, weights_folder
from gym_llm.rollouts.ray.engine_client import ActorEngine
from gym_llm.rollouts.ray.shared_engine import shared_engine
from gym_llm.rollouts.ray.weight_files import WeightFiles
from gym_llm.types import Request, ResponseDict


class ActorEngines(Engine):
    """A client of several engines of one model in Ray actors: `actors:NAME,NAME`.

    Episodes go to the engines in turn, and each stays on its own. New weights go to all engines at once and have the
    same version on all. They are put into Ray's object store once, if an actor cannot read their folder.

    Args:
        names: Names of `EngineActor`s, separated by commas.
    """

    capabilities = Capabilities(weights=True)  # the rest is its engines', known once it is started

    def __init__(self, names: str) -> None:
        self.model = ""
        self._engines = [ActorEngine(name) for name in names.split(",")]
        self._turn = cycle(self._engines)
        self._of: dict[str, ActorEngine] = {}  # of each episode
        self._updating = asyncio.Lock()

    async def start(self) -> None:
        """Find the actors; see `ActorEngine.start`."""
        self._updating = asyncio.Lock()
        await all_of(*(engine.start() for engine in self._engines))
        self.model, self.capabilities = self._engines[0].model, self._engines[0].capabilities
        self.weight_version = max(engine.weight_version for engine in self._engines)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        if not episode_id:
            return await next(self._turn).respond(request)
        episode = conversation_of(episode_id)
        if (engine := self._of.get(episode)) is None:
            engine = self._of[episode] = next(self._turn)
        return await engine.respond(request, episode_id=episode_id)

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        self._of.pop(episode_id, None)
        return None

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probabilities of a row; see `Engine.score`."""
        return await next(self._turn).score(ids, top_k=top_k, adapter=adapter)

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "wait", version: int | None = None) -> None:
        """Replace the weights of all engines; see `WeightSync`. If one fails, the others may have the new ones."""
        check_update(mode, version, self.weight_version)
        async with self._updating:
            new_version = check_update(mode, version, self.weight_version)
            with weights_folder(weights) as folder:
                files = WeightFiles(folder)
                options: dict[str, Any] = {"mode": mode, "version": new_version}
                await to_its_end(all_of(*(engine.update_from(files, options) for engine in self._engines)))
            self.weight_version = new_version

    async def sleep(self, level: int = 1) -> None:
        """See `WeightSync`."""
        await all_of(*(engine.sleep(level) for engine in self._engines))

    async def wake_up(self) -> None:
        """See `WeightSync`."""
        await all_of(*(engine.wake_up() for engine in self._engines))

    async def aclose(self) -> None:
        """Let go of the actors, which go on."""
        await all_of(*(engine.aclose() for engine in self._engines))


@asynccontextmanager
async def shared_engines(
    spec: str, options: dict[str, Any], count: int, *, ray_address: str | None
) -> AsyncGenerator[str, None]:
    """Start engines in Ray actors; they end with the context.

    Args:
        spec: The engines'.
        options: Their arguments.
        count: The number of engines, 1 or more.
        ray_address: A cluster's; None for a Ray of this machine's own.

    Yields:
        The spec of their `ActorEngines`, for every process of the same Ray job.

    Raises:
        EngineUnavailable: If an engine cannot start.
        RayUnavailable: If Ray cannot be used.
    """
    async with AsyncExitStack() as stack:
        contexts = [shared_engine(spec, options, ray_address=ray_address) for _ in range(count)]
        specs = await all_of(*(stack.enter_async_context(context) for context in contexts))
        yield "actors:" + ",".join(one.removeprefix("actor:") for one in specs)
