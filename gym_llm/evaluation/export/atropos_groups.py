"""Groups for Atropos: what its environments post to `/scored_data`, one group a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gym_llm.data.files.atomic import replacing
from gym_llm.trainers.atropos import scored_data
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps


def write(records: Iterable[Rollout], output: Path) -> None:
    """Write the episodes of each task as a group; they are in memory until the last one is read.

    A group with a masked episode, or with one that is not exactly one row, is left out; see `scored_data`.
    """
    groups: dict[tuple[Any, int], list[Rollout]] = {}
    for record in records:
        groups.setdefault((record.get("dataset"), record["rollout_id"]["task_index"]), []).append(record)
    with replacing(output) as file:
        for group in groups.values():
            if (body := scored_data(group, messages=True)) is not None:
                file.write(dumps(body))
