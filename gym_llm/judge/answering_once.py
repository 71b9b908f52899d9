"""AnsweringOnce: an engine beside the policy that a restored episode does not ask twice."""

from __future__ import annotations

from gym_llm.concurrency.answered_once import answered_once
from gym_llm.engines.around import EngineAround
from gym_llm.types import Request, ResponseDict


class AnsweringOnce(EngineAround):
    """An engine whose answers a durable episode remembers; see `gym_llm.concurrency.answered_once`.

    Args:
        engine: The engine of a simulated user or of an opponent. It is started and closed with this one.
    """

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

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        await self.engine.aclose()
