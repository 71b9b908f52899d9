"""Rows of tokens with recorded log probabilities, from rollout files of this package and of others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gymnasium.error import InvalidAction

from gym_llm.errors import DataError
from gym_llm.evaluation.drift.drift_row import DriftRow, check_row
from gym_llm.evaluation.drift.foreign_rows import foreign_rows
from gym_llm.records.record import read_record
from gym_llm.records.record_files import numbered_records
from gym_llm.records.seats import seat_records
from gym_llm.tokens.segments import Segments, tokens_of
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.types import Item, Request, Rollout
from gym_llm.utils.json_codec import loads

_MODEL_ITEMS = ("reasoning", "function_call")


def read_rows(path: str | os.PathLike[str], *, on_read: Callable[[int], None] | None = None) -> list[DriftRow]:
    """Return the rows of a file that have sampled tokens with log probabilities.

    Args:
        path: A rollout file of this package or of NeMo Gym, or JSON Lines as verifiers or TRL write them
            (`gym_llm.evaluation.drift.foreign_rows`). May be compressed.
        on_read: Called with the size in bytes of each line that is read.

    Raises:
        DataError: If the file cannot be read, a line is invalid, or no line has token ids with log probabilities.
    """
    rows: list[DriftRow] = []
    lines = 0
    for number, line, found in numbered_records(path, _line_rows, problem="has no rows of tokens"):
        if on_read is not None:
            on_read(len(line))
        lines += 1
        rows += [replace(row, place=f"{number}.{n + 1}") for n, row in enumerate(found)]
    if not rows:
        raise DataError(
            f"{path} has {lines} lines, but no sampled token ids. Record them with an engine that gives them."
        )
    if not any(value for row in rows for value in row.log_probs):
        raise DataError(f"{path} has token ids, but no log probabilities. Record them as well.")
    return rows


def _line_rows(line: bytes) -> list[DriftRow]:
    try:
        value = loads(line)
    except ValueError:
        raise DataError("not JSON") from None
    if not isinstance(value, dict):
        raise DataError("not an object")
    rows = foreign_rows(value)
    if rows is None:
        rows = [row for record in seat_records(read_record(value)).values() for row in _record_rows(record)]
    for row in rows:
        check_row(row)
    return [row for row in rows if 1 in row.mask]


def _record_rows(record: Rollout) -> Iterator[DriftRow]:
    """The rows of a record of this package or of NeMo Gym."""
    if not record.get("trajectory") and record.get("response"):
        record = _with_trajectory(record)
    request: Any = record.get("responses_create_params") or {}
    response: Any = record.get("response") or {}
    temperature = request.get("temperature")
    top_p = request.get("top_p")
    is_complete = response.get("status", "completed") == "completed" and record.get("outcome") != "masked"
    rows = token_rows(record)
    every = [DriftRow(row.input_ids, row.loss_mask, row.logprobs) for row in rows]
    requests = turn_requests(request, response.get("output") or [])
    if len(requests) != sum(len(each.spans) for each in every):
        requests = []  # the turns of an agent, of which the items are another view
    for number, (row, each) in enumerate(zip(rows, every, strict=True)):
        count = len(each.spans)
        yield replace(
            each,
            versions=row.weight_versions,
            constrained=row.constrained,
            temperature=float(temperature) if temperature is not None and temperature >= 0.01 else 1.0,
            top_p=float(top_p) if top_p else 1.0,
            requests=requests[:count],
            is_complete=is_complete and number == len(rows) - 1,
        )
        requests = requests[count:]


def _with_trajectory(record: Rollout) -> Rollout:
    """The record with the trajectory of its items' token fields, as NeMo Gym has them."""
    segments = Segments()
    try:
        segments.add(tokens_of(record["response"].get("output") or []))
    except InvalidAction as error:
        raise DataError(str(error).rstrip(".")) from None
    trajectory = segments.trajectory(with_rewards=False)
    return {**record, "trajectory": trajectory} if trajectory else record


def turn_requests(request: Request | dict[str, Any], items: Sequence[Item]) -> list[Request]:
    """Return the request of each model turn among the items of an episode, without token fields."""
    given = request.get("input") or []
    before: list[Item] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    rest = [{name: value for name, value in item.items() if not name.startswith(_TOKENS)} for item in items]
    found: list[Request] = []
    was_models = False
    for index, item in enumerate(rest):
        is_models = item.get("type") in _MODEL_ITEMS or item.get("role") == "assistant"
        if is_models and not was_models:
            found.append({**request, "input": [*before, *rest[:index]]})  # type: ignore[typeddict-item]
        was_models = is_models
    return found


_TOKENS = ("prompt_token_ids", "generation_")
