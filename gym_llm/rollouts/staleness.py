"""Staleness: tokens of older weights than a trainer wants."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from gym_llm.types import Rollout

Stale: TypeAlias = Literal["keep", "wait"]
"""What happens to tokens that are older than `max_staleness` updates of the weights.

- `keep`: they are delivered, and the trainer corrects for them (`gym_llm.trainers.shared.importance`).
- `wait`: so many groups are begun only that none becomes older, as in AReaL (Fu et al. 2025, arXiv 2505.24298), if the
  weights change once for each `groups_per_update` groups. A group waits for one that would else become older.
"""

_NEWEST = 1 << 62


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


def _versions(segment: dict[str, Any]) -> list[int]:
    return segment.get("weight_versions") or [0] * len(segment["loss_mask"])
