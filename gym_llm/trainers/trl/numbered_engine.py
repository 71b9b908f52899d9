"""NumberedEngine: the versions of weights that a trainer changes at a server itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gym_llm.engines.around import EngineAround
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.tokens.weight_versions import note_versions
from gym_llm.types import Request, ResponseDict


class NumberedEngine(EngineAround):
    """Numbers what an engine samples by the trainer's version when it was asked: later tokens may be younger.

    What an agent's engine reports at the end of an episode gets the version of the episode's beginning.

    Args:
        engine: A started engine, whose weights the trainer changes itself.
        version: Returns the version of the weights, as the trainer counts.
    """

    def __init__(self, engine: Engine, version: Callable[[], int]) -> None:
        super().__init__(engine)
        self._version = version
        self._begun: dict[str, int] = {}

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        version = self._version()
        self._begun.setdefault(_seat_of(episode_id), version)
        return note_versions(await self.engine.respond(request, episode_id=episode_id), [(version, 0)])

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        version = self._begun.pop(_seat_of(episode_id), 0)
        report = await self.engine.end_episode(episode_id, rewards=rewards, failed=failed)
        for segment in (report and version and report.trajectory) or ():
            segment.setdefault("weight_versions", [version * used for used in segment["loss_mask"]])
        return report


def _seat_of(episode_id: str) -> str:
    """Return the id of the episode and its seat, without the agent's line of conversation."""
    return episode_id.partition("~")[0]
