"""AnsweringOnce: an engine beside the policy that a restored episode does not ask twice."""

from __future__ import annotations

from collections.abc import Sequence

from gym_llm.concurrency.answered_once import answered_once
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.types import Request, ResponseDict


class AnsweringOnce(Engine):
    """An engine whose answers a durable episode remembers; see `gym_llm.concurrency.answered_once`.

    Args:
        engine: The engine of a simulated user or of an opponent. It is started and closed with this one.

    Attributes:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.model = engine.model
        self.capabilities = engine.capabilities

    async def start(self) -> None:
        """See `Engine.start`."""
        await self.engine.start()
        self.model = self.engine.model
        self.capabilities = self.engine.capabilities

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Return the engine's answer, or the one that this episode has had before."""
        return await answered_once(
            "model", [self.model, request], lambda: self.engine.respond(request, episode_id=episode_id)
        )

    def count_tokens(self, request: Request) -> int | None:
        """See `Engine.count_tokens`."""
        return self.engine.count_tokens(request)

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """See `Engine.end_episode`."""
        return await self.engine.end_episode(episode_id, rewards=rewards, failed=failed)

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        await self.engine.aclose()
