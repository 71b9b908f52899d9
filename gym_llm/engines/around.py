"""EngineAround: an engine in front of another one, which is started and closed by its owner."""

from __future__ import annotations

from collections.abc import Sequence

from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.engines.scores import Scores
from gym_llm.types import Request, ResponseDict


class EngineAround(Engine):
    """Passes everything on to a started engine; subclasses change what they have to.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.model = engine.model
        self.capabilities = engine.capabilities

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        return await self.engine.respond(request, episode_id=episode_id)

    @property
    def weight_version(self) -> int:  # type: ignore[override]
        """The version of the engine's weights."""
        return self.engine.weight_version

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probabilities of a row; see `Engine.score`."""
        return await self.engine.score(ids, top_k=top_k, adapter=adapter)

    @property
    def context_tokens(self) -> int | None:
        """The length of the model's context."""
        return self.engine.context_tokens

    def count_tokens(self, request: Request) -> int | None:
        """Return the number of tokens of a request's prompt; see `Engine.count_tokens`."""
        return self.engine.count_tokens(request)

    def prompt_ids(self, request: Request) -> list[int] | None:
        """Return the ids of a request's prompt; see `Engine.prompt_ids`."""
        return self.engine.prompt_ids(request)

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        return await self.engine.end_episode(episode_id, rewards=rewards, failed=failed)


def conversation_of(episode_id: str) -> str:
    """Return the episode of an id that names a seat, or an agent's further line of conversation, in it.

    >>> conversation_of("3-0"), conversation_of("3-0/black"), conversation_of("3-0~2")
    ('3-0', '3-0', '3-0')
    """
    return episode_id.partition("/")[0].partition("~")[0]
