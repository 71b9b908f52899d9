"""Masked episodes for trainers whose own mask of an episode is an exception."""

from __future__ import annotations

from gym_llm.errors import EpisodeMasked
from gym_llm.types import Rollout


def masking_error(record: Rollout) -> EpisodeMasked:
    """The error that stands for a masked episode: what its record says of it."""
    return EpisodeMasked(
        f"Task {record['rollout_id']['task_index']} of {record['env_id']} is masked ({record['failure_kind']}): "
        f"{record['error']}",
        failure_kind=record["failure_kind"],
    )
