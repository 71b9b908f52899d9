"""Staleness: tokens, and episodes, of older weights than a trainer wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from gym_llm.engines.around import EngineAround, conversation_of
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.errors import EngineError
from gym_llm.types import Request, ResponseDict, Rollout

Stale: TypeAlias = Literal["keep", "wait", "drop", "cancel", "split"]
"""What happens to tokens that are older than `max_staleness` updates of the weights.

- `keep`: they are delivered, and the trainer corrects for them (`gym_llm.trainers.shared.importance`).
- `wait`: so many groups are begun only that none becomes older, as in AReaL (Fu et al. 2025, arXiv 2505.24298), if the
  weights change once for each `groups_per_update` groups. A group waits for one that would else become older.
- `drop`: a group that has some is not delivered.
- `cancel`: as `drop`, and an episode that has some is masked as soon as it asks for its next turn.
- `split`: they are taken out of the loss (`loss_mask` 0), and younger ones of the same episode stay.
"""

CANCELLED = ("cancelled", "cohort_incomplete")
"""Kinds of failures that `cancel` leads to: of the episode, and of the one left of a group that is scored together."""

_NEWEST = 1 << 62


class CancellingEngine(EngineAround):
    """Cancels episodes whose first turn is too old.

    The client of an engine in another process learns of new weights from the answers that they sample.

    Args:
        engine: A started engine.
        max_staleness: By how many versions an episode's first token may be older than the weights.
    """

    def __init__(self, engine: Engine, *, max_staleness: int) -> None:
        super().__init__(engine)
        self._most, self._seen = max_staleness, 0
        self._begun: dict[str, int] = {}

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request, unless the episode is too old; see `Engine.respond`."""
        episode = conversation_of(episode_id)  # its seats and lines have ids of their own, but one end
        now = max(self.engine.weight_version, self._seen)
        if now - self._begun.get(episode, now) > self._most:
            raise EngineError("The episode was begun with weights that are too old now.", failure_kind="cancelled")
        response = await self.engine.respond(request, episode_id=episode_id)
        versions = [version for item in response["output"] for version, _ in item.get("generation_weight_versions", ())]
        self._seen = max(self._seen, *versions, 0)
        self._begun.setdefault(episode, min(versions, default=self.engine.weight_version))
        return response

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        self._begun.pop(conversation_of(episode_id), None)
        return await self.engine.end_episode(episode_id, rewards=rewards, failed=failed)


def sampled_tokens(record: Rollout) -> int:
    """Return the number of a record's sampled tokens."""
    return sum(sum(segment["loss_mask"]) for segment in record["trajectory"] or ())


def oldest_version(record: Rollout) -> int:
    """Return the oldest version of a record's sampled tokens; a high one if nothing was sampled."""
    return min(
        (
            version
            for segment in record["trajectory"] or ()
            for version, mask in zip(_versions(segment), segment["loss_mask"], strict=True)
            if mask
        ),
        default=_NEWEST,
    )


def mask_older(record: Rollout, oldest: int) -> int:
    """Take tokens that are older than a version out of the loss, and return their number."""
    masked = 0
    for segment in record["trajectory"] or ():
        mask = segment["loss_mask"]
        new = [used if version >= oldest else 0 for used, version in zip(mask, _versions(segment), strict=True)]
        masked += sum(mask) - sum(new)
        segment["loss_mask"] = new
    return masked


def _versions(segment: dict[str, Any]) -> list[int]:
    return segment.get("weight_versions") or [0] * len(segment["loss_mask"])
