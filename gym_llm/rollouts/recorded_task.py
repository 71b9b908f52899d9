"""The task and the episode of a record, and whether the task is still the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gym_llm.engines.replay import is_environments, recorded_turns
from gym_llm.records.record import OWN_NAMES, is_early
from gym_llm.types import Episode, Rollout, Row
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.secrets import MASK

_PARAMS: Final = "responses_create_params"
MADE_BY_HOOKS: Final = (f"{_PARAMS}.input", f"{_PARAMS}.tools")
"""The fields of a request that an environment's `setup` may set."""


def row_of(record: Rollout) -> Row:
    """The row that a record was played with; its request has the tools and the sampling that it was played with."""
    fields: Row = {name: value for name, value in record.items() if name not in OWN_NAMES}
    fields.update(record.get("task_fields", {}))
    return fields


def fill_episode(episode: Episode, response: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    """Give an episode the items, counts and last turn of its record.

    Args:
        episode: One that has only been reset. It shares the record's items afterwards.
        response: The record's `response`, its items with their token ids.
        info: The record's `info`.
    """
    items = response["output"]
    start = len(items)
    while start and not is_environments(items[start - 1]):
        start -= 1
    episode.items, episode.turn_start = items, start
    episode.turn = info.get("turn") or len(recorded_turns(response))  # type: ignore[arg-type]
    episode.tool_errors, episode.usage = info.get("tool_errors", 0), response.get("usage")
    episode.last_response = {**response, "output": items[start:]}


def changed_fields(row: Row, record: Rollout, sampling: dict[str, Any]) -> list[str]:
    """Return the fields of a task that have changed since it was played.

    Args:
        row: The task as it is now.
        record: As it was read. One without a request is of an episode that never began, and says nothing.
        sampling: What the run sets over the task's own request.

    Returns:
        The names of the fields, those of the request with `responses_create_params.` before them.
    """
    if _PARAMS not in record:
        return []
    recorded = {name: value for name, value in row_of(record).items() if name != _PARAMS}
    now = {name: value for name, value in row.items() if name != _PARAMS}
    if is_early(record):  # they had no place for fields by the names of a record's own
        now, recorded = (
            {name: value for name, value in each.items() if name not in OWN_NAMES} for each in (now, recorded)
        )
    request, params = dict(record[_PARAMS]), {**row[_PARAMS], **sampling}
    if isinstance(params["input"], str):
        params["input"] = [{"role": "user", "content": params["input"]}]
    if params.get("tools") is None:  # the environment's own
        request.pop("tools", None)
        params.pop("tools", None)
    return _differences(now, recorded, "") + _differences(params, dict(request), f"{_PARAMS}.")


def _differences(now: dict[str, Any], recorded: dict[str, Any], prefix: str) -> list[str]:
    return [
        f"{prefix}{name}"
        for name in {**recorded, **now}
        if name not in now or name not in recorded or not _are_same(now[name], recorded[name])
    ]


def _are_same(now: Any, recorded: Any) -> bool:
    try:
        # What is not JSON, in rows of a program's, is recorded as what `dumps` makes of it; secrets are not.
        return bool(now == recorded) or loads(dumps(now)) == recorded or MASK.encode() in dumps(recorded)
    except Exception:  # an object of a program's that compares in its own way
        return True
