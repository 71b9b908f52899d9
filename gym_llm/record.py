"""Rollout records: what is written down of an episode, and what may be relied on when it is read again."""

from __future__ import annotations

import math
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from gym_llm.errors import DataError
from gym_llm.types import Episode, Phase, Rollout, RolloutId

if TYPE_CHECKING:
    from gym_llm.env import VerifierEnv

SCHEMA_VERSION = 1
"""Of the records made here. Records without one are version 0, which had no `error_phase`."""

_KINDS: dict[str, Any] = {
    "rollout_id": dict,
    "reward": (int, float, NoneType),
    "responses_create_params": dict,
    "response": dict,
    "error": (str, NoneType),
    "error_phase": (str, NoneType),
    "info": dict,
    "trajectory": (list, NoneType),
}


def make_record(
    env: Any,
    *,
    rollout_id: RolloutId,
    reward: float,
    terminated: bool,
    truncated: bool,
    error: str | None,
    error_phase: Phase | None = None,
    info: dict[str, Any],
    timing: dict[str, float],
    sampling: dict[str, Any] | None = None,
) -> Rollout:
    """The record of the episode that an environment has just played (or failed to).

    The fields are those of `Rollout`; `sampling` is what the driver set over the request's own. The record shares the
    episode's items: write it, or copy it, before changing anything.
    """
    verifier: VerifierEnv = env.unwrapped
    episode = verifier.episode
    record: dict[str, Any] = {}
    if episode is not None:
        record.update(episode.row)
        record["responses_create_params"] = {**episode.request, **(sampling or {})}
        record["response"] = _response(episode)
    record.update(
        rollout_id=rollout_id,
        env_id=verifier.env_id,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        error=error,
        error_phase=error_phase,
        info={name: value for name, value in info.items() if name != "trajectory"},
        trajectory=info.get("trajectory"),
        timing=timing,
        schema_version=SCHEMA_VERSION,
    )
    return record  # type: ignore[return-value]


def failed_record(env_id: str, rollout_id: tuple[int, int], error: str) -> Rollout:
    """The record of an episode (its task index and repeat index) of which nothing is left but why."""
    task_index, repeat_index = rollout_id
    return {
        "rollout_id": {"task_index": task_index, "repeat_index": repeat_index},
        "env_id": env_id,
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "error": error,
        "error_phase": None,
        "info": {"task_index": task_index},
        "trajectory": None,
        "timing": {},
        "schema_version": SCHEMA_VERSION,
    }


def read_record(value: Any) -> Rollout:
    """A record as it comes out of a file, of this version or an earlier one: whatever has its fields' kinds.

    Args:
        value: What JSON said. Becomes the record; a reward of None, as JSON says NaN, becomes NaN again.

    Raises:
        DataError: If it is no record, or of a later version; the message says why, for a sentence that says where.

    >>> read_record({"rollout_id": {"task_index": 3, "repeat_index": 0}, "reward": None})["reward"]
    nan
    """
    if not isinstance(value, dict):
        raise DataError(f"it is not an object, but of type {type(value).__name__}")
    version = value.get("schema_version") if "error_phase" in value else 0  # else it is a task's field
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DataError(f"its schema_version is {version}, and this gym_llm reads up to {SCHEMA_VERSION}: update it")
    if not {"rollout_id", "reward"} <= value.keys():
        raise DataError("it has no `rollout_id` and `reward`")
    for name, kind in _KINDS.items():
        if name in value and not isinstance(value[name], kind):
            raise DataError(f"its `{name}` cannot be {value[name]!r:.80}")
    for name in ("task_index", "repeat_index"):
        if type(value["rollout_id"].get(name)) is not int:
            raise DataError(f"its `rollout_id` has no whole number `{name}`")
    if value["reward"] is None:
        value["reward"] = math.nan
    return cast(Rollout, value)


def _response(episode: Episode) -> dict[str, Any]:
    last = episode.last_response
    response: dict[str, Any] = {
        "id": f"resp_{episode.task_index}",
        "object": "response",
        "created_at": 0.0,
        "model": "",
        "status": "completed",
        "incomplete_details": None,
    }
    response.update(last)
    response["output"] = episode.items
    response["usage"] = episode.usage
    return response
