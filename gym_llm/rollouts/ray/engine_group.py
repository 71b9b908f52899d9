"""ActorEngines: several engines in Ray actors that play together, and take the same weights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from yarl import URL

from gym_llm.engines.around import conversation_of
from gym_llm.engines.engine import Capabilities, Engine, EpisodeReport
from gym_llm.engines.routing import Router, Server
from gym_llm.engines.scores import Scores
from gym_llm.engines.weights import UpdateMode, Weights, all_of, check_update, to_its_end, weights_folder
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.rollouts.ray.engine_client import ActorEngine
from gym_llm.rollouts.ray.shared_engine import shared_engine
from gym_llm.rollouts.ray.weight_files import WeightFiles
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.secrets import redacted_logger

_log = redacted_logger(__name__)
T = TypeVar("T")
_PAUSE = 1.0


class ActorEngines(Engine):
    """A client of several engines of one model in Ray actors: `actors:NAME,NAME`.

    Each episode stays on one engine, and so do the episodes of a task, whose prompt is then in its cache; see `Router`.
    New weights go to all engines at once and have the same version on all. They are put into Ray's object store once,
    if an actor cannot read their folder.

    If an engine's process ends, the other engines answer its requests at once, and a warning names it. It answers again
    as soon as its new process has the weights: after the next update, if they were ever updated.

    Args:
        names: Names of `EngineActor`s, separated by commas.
    """

    capabilities = Capabilities(weights=True)  # the rest is its engines', known once it is started

    def __init__(self, names: str) -> None:
        self.model = ""
        self._engines = [ActorEngine(name) for name in names.split(",")]
        places = [Server(URL(f"actor:{number}"), URL(f"actor:{number}")) for number in range(len(self._engines))]
        self._engine_at = dict(zip(places, self._engines, strict=True))
        self._router = Router(places, is_shared=True)
        self._returns: set[asyncio.Task[None]] = set()
        self._updating = asyncio.Lock()

    async def start(self) -> None:
        """Find the actors; see `ActorEngine.start`."""
        self._updating = asyncio.Lock()
        await all_of(*(engine.start() for engine in self._engines))
        self.model, self.capabilities = self._engines[0].model, self._engines[0].capabilities
        self.weight_version = max(engine.weight_version for engine in self._engines)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""

        async def ask(engine: ActorEngine) -> ResponseDict:
            return await engine.respond(request, episode_id=episode_id)

        return await self._ask(ask, conversation_of(episode_id))

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        self._router.leave(conversation_of(episode_id))
        return None

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probabilities of a row; see `Engine.score`."""

        async def ask(engine: ActorEngine) -> Scores:
            return await engine.score(ids, top_k=top_k, adapter=adapter)

        return await self._ask(ask, "")

    async def _ask(self, ask: Callable[[ActorEngine], Awaitable[T]], episode: str) -> T:
        """Ask the episode's engine, and another one for each whose process has ended."""
        while True:
            place = self._router.pick(episode)
            place.in_flight += 1
            try:
                return await ask(self._engine_at[place])
            except EngineError as error:
                if error.failure_kind != "kill_shaped" and not isinstance(error, EngineUnavailable):
                    raise
                self._rest(place, error)
                if all(each.resting for each in self._router.servers):
                    raise
            finally:
                place.in_flight -= 1

    def _rest(self, place: Server, error: EngineError) -> None:
        if place.resting:
            return
        place.resting = True
        name = self._engine_at[place].name
        _log.warning("Engine actor %s does not answer, and its episodes go to others: %s", name, error)
        task = asyncio.create_task(self._come_back(place))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _come_back(self, place: Server) -> None:
        """Have a place rest until its actor has a new process, and that the weights."""
        engine = self._engine_at[place]
        while True:
            await asyncio.sleep(_PAUSE)
            try:
                if await engine.has_weights():
                    break
            except EngineError as error:
                _log.debug("Engine actor %s: %s", engine.name, error)
        place.resting = False
        _log.info("Engine actor %s answers again.", engine.name)

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
        for task in self._returns:
            task.cancel()
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
