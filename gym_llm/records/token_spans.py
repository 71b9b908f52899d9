"""The token ids of a record, written once.

In memory a record has a turn's ids twice: on the turn's item, from the engine, and in the `trajectory`. The file has
them in the `trajectory` only. There the item has a `trajectory_span`: the segment's index, and the start and the end of
the sampled ids. The ids before the start are the turn's prompt. An item whose ids are not all in the trajectory (a
wrapper changed them, or the turn sampled none) keeps its own.
"""

from __future__ import annotations

from typing import Any, cast

from gym_llm.errors import DataError
from gym_llm.types import ROUTED_EXPERTS, TOKEN_FIELDS, Item, Rollout

SPAN = "trajectory_span"
_SAMPLED = TOKEN_FIELDS[1]
_WRITTEN_ONCE = {*TOKEN_FIELDS, ROUTED_EXPERTS}  # the experts of a segment's last turn are those of its other turns
_LOOKED_AT = 16  # segments: a server may send thousands of items that have none


def without_copies(record: Rollout) -> Rollout:
    """The record as it is written: a shallow copy where an item's ids are in the trajectory, else the record itself."""
    response = record.get("response")
    output = response.get("output") if response else None
    if not output:
        return record
    trajectory = record.get("trajectory")
    segments = trajectory if isinstance(trajectory, list) else []
    items: list[Item] = []
    number = 0
    changed = False
    for item in output:
        if SPAN in item or (segments and item.get(_SAMPLED)):
            kept = {name: value for name, value in item.items() if name != SPAN}  # only we say where something is
            # A turn is in the segment of the one before, or in one soon after; others keep their ids.
            for index in range(number, min(number + _LOOKED_AT, len(segments)) if item.get(_SAMPLED) else number):
                if (span := _span(item, segments[index])) is not None:
                    number = index
                    kept = {name: value for name, value in kept.items() if name not in _WRITTEN_ONCE}
                    kept[SPAN] = [index, *span]
                    break
            item, changed = kept, True
        items.append(item)
    return cast(Rollout, {**record, "response": {**record["response"], "output": items}}) if changed else record


def with_copies(record: Rollout) -> Rollout:
    """Restore a written record to its form in memory, in place. A record without spans is not changed.

    Raises:
        DataError: If an item names a place that the trajectory does not have.
    """
    response = record.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    for item in output if isinstance(output, list) else ():
        if isinstance(item, dict) and SPAN in item:
            try:
                index, start, end = item[SPAN]
                segment = record["trajectory"][index]  # type: ignore[index]
                ids, log_probs = segment["input_ids"], segment["logprobs"]
                fits = index >= 0 and 0 <= start <= end <= len(ids) == len(log_probs)
                tokens = ids[:start], ids[start:end], log_probs[start:end]
            except (LookupError, TypeError, ValueError):
                fits = False
            if not fits:
                raise DataError(f"an item's `{SPAN}` is {item[SPAN]!r:.80}, which is not in its trajectory")
            del item[SPAN]
            item.update(zip(TOKEN_FIELDS, tokens, strict=True))
    return record


def _span(item: Item, segment: Any) -> tuple[int, int] | None:
    """Return the start and end of an item's sampled ids in a segment; None if the segment lacks some of them."""
    prompt, sampled, log_probs = (item.get(name) for name in TOKEN_FIELDS)
    try:
        start = len(prompt)  # type: ignore[arg-type]
        end, ids = start + len(sampled), segment["input_ids"]  # type: ignore[arg-type]
        if ids[start:end] == sampled and segment["logprobs"][start:end] == log_probs and ids[:start] == prompt:
            return start, end
    except (LookupError, TypeError):  # a wrapper's own trajectory
        pass
    return None
