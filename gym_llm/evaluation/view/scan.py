"""Reading the rows of the episode list from a rollout file, at some hundred megabytes a second.

No list shows the trajectories, so they are cut out of the lines before these are parsed
(`gym_llm.records.trajectory_bytes`). The viewer reads a trajectory when it shows the episode.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

from gym_llm.errors import DataError
from gym_llm.evaluation.view.episode_table import MOST_FIELDS, OUTCOMES, UNREADABLE, EpisodeRow
from gym_llm.records.record import OWN_NAMES, check_record
from gym_llm.records.trajectory_bytes import find_trajectory
from gym_llm.types import message_text
from gym_llm.utils.json_codec import dumps, loads

BLOCK = 8 << 20
LONGEST_LINE = 64 << 20
"""A longer one is listed as unreadable: what is in it is not looked at."""

_LONGEST_NAME = 80
_LONGEST_TEXT = 80
_LONGEST_ANSWER = 200
_LONGEST_PREVIEW = 120
_NOT_FIELDS = {"task_index", "turn", "tool_errors", "extracted_answer", "reward_components"}
_NOT_ROW_FIELDS = {*OWN_NAMES, "responses_create_params"}
_KINDS = {name: number for number, name in enumerate(OUTCOMES)}


def scan(
    path: str | os.PathLike[str], start: int, stop: int, *, whole: bool = False
) -> Iterator[tuple[int, list[EpisodeRow]]]:
    """Yield the rows of the lines that begin in a part of a file.

    Args:
        path: The file.
        start: Where to begin: a line's beginning, or anywhere in the one before.
        stop: Lines that begin here or later are left out.
        whole: Whether what follows the last newline is a line if it is a record; else it is left out.

    Yields:
        Where the next line begins (0 if no line has begun), and the rows up to there.

    Raises:
        OSError: If the file cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield from scan_open(descriptor, start, stop, whole=whole)
    finally:
        os.close(descriptor)


def scan_open(descriptor: int, start: int, stop: int, *, whole: bool = False) -> Iterator[tuple[int, list[EpisodeRow]]]:
    """Yield the rows of an open file; see `scan`."""
    position = start and start - 1  # the byte before tells whether a line begins at `start`
    is_inside, offset, held, is_long = bool(start), position, bytearray(), False
    while position < stop or held or is_long or is_inside:
        data = os.pread(descriptor, BLOCK, position)
        if not data:
            break
        rows: list[EpisodeRow] = []
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            if is_inside:
                is_inside = False
            elif offset >= stop:
                break
            elif is_long:
                rows.append(unreadable(offset, position + end - offset, _too_long(position + end - offset)))
                is_long = False
            else:
                rows += read_line(offset, bytes(held) + data[begin:end] if held else data[begin:end])
            held.clear()
            begin = end + 1
            offset = position + begin
        if offset >= stop and not is_inside:
            if rows or offset > start:
                yield offset, rows
            return
        if not is_inside and not is_long:
            held += data[begin:]
            if is_long := len(held) > LONGEST_LINE:
                held.clear()
        position += len(data)
        yield (0 if is_inside else offset), rows
    if whole and held and not is_inside:
        rows = read_line(offset, bytes(held))
        if rows and rows[0].outcome != UNREADABLE:
            yield offset + len(held), rows


def scan_part(part: tuple[str, int, int]) -> tuple[int, list[EpisodeRow]]:
    """`scan` for a worker process, all at once: path, start and stop."""
    pieces = list(scan(*part))
    return max((end for end, _ in pieces), default=0), [row for _, rows in pieces for row in rows]


def read_line(offset: int, line: bytes) -> list[EpisodeRow]:
    """Return a line's row; nothing for an empty line."""
    if not line.strip():
        return []
    cut, cut_length = find_trajectory(line)
    try:
        try:
            record = check_record(loads(line[:cut] + line[cut + cut_length :] if cut_length else line))
        except (ValueError, DataError):
            if not cut_length:
                raise
            cut, cut_length = len(line), 0
            record = check_record(loads(line))
    except DataError as error:
        return [unreadable(offset, len(line), f"cannot be read: {error}")]
    except ValueError:
        return [unreadable(offset, len(line), "cannot be read: it is not JSON")]
    info: dict[str, Any] = record.get("info") or {}
    response: dict[str, Any] = record.get("response") or {}  # type: ignore[assignment]
    usage = response.get("usage") or {}
    number, seconds = record["rollout_id"], (record.get("timing") or {}).get("total")
    preview = _preview(response.get("output") or []) or record.get("error") or ""
    row = EpisodeRow(
        offset,
        len(line),
        cut,
        cut_length,
        outcome=_KINDS[record["outcome"]],
        task=number["task_index"],
        repeat=number["repeat_index"],
        turns=info.get("turn", 0),
        tool_errors=info.get("tool_errors", 0),
        tokens=min((usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0), 2**63 - 1),
        output_tokens=usage.get("output_tokens"),
        reward=record["reward"],
        seconds=None if seconds is None else _float(seconds),
        dataset=_clean(record.get("dataset", "")[:_LONGEST_ANSWER]),
        env_id=_clean(record.get("env_id", "")[:_LONGEST_ANSWER]),
        failure_kind=_clean((record.get("failure_kind") or "")[:_LONGEST_ANSWER]),
        answer=_clean(_answer(info)),
        preview=_clean(preview),
        prompt=_clean(_prompt(record.get("responses_create_params") or {})),
        fields=_fields(info, record),
    )
    return [row]


def unreadable(offset: int, length: int, why: str) -> EpisodeRow:
    """Return the row of a line that is not a record."""
    return EpisodeRow(offset, length, length, 0, UNREADABLE, preview=_clean(why[: 2 * _LONGEST_PREVIEW]))


def _clean(text: str) -> str | None:
    """Return a text without lone surrogates, None for an empty one."""
    return text if text.isascii() and text else text.encode(errors="replace").decode() or None


def _too_long(length: int) -> str:
    return f"cannot be read: it has {length:,} bytes, and the viewer reads lines of up to {LONGEST_LINE:,}"


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _answer(info: dict[str, Any]) -> str:
    """Return the answer that the verifier extracted, as text."""
    answer = info.get("extracted_answer")
    if answer is None:
        return ""
    if not isinstance(answer, str):
        answer = dumps(answer)[:-1].decode(errors="replace")
    return answer[:_LONGEST_ANSWER]


def _preview(output: list[dict[str, Any]]) -> str:
    """Return the beginning of the model's last message."""
    for item in reversed(output):
        if item.get("type", "message") == "message" and item.get("role") == "assistant":
            try:
                text = message_text([item])
            except (AttributeError, TypeError):  # its content is none
                continue
            if text := " ".join(text[: 4 * _LONGEST_PREVIEW].split()):
                return text[:_LONGEST_PREVIEW]
    return ""


def _prompt(request: Any) -> str:
    """Return the beginning of the user's last message of a request: before it there may be examples."""
    asked = request.get("input")
    for item in [{"content": asked}] if isinstance(asked, str) else reversed(asked or []):
        if item.get("type", "message") == "message" and item.get("role", "user") == "user":
            said = message_text([{"role": "assistant", "content": item.get("content")}])
            if text := " ".join(said[: 4 * _LONGEST_PREVIEW].split()):
                return text[:_LONGEST_PREVIEW]
    return ""


def _fields(info: dict[str, Any], record: Any) -> list[tuple[str, Any]]:
    """The numbers and short texts of an info, its reward's components, and the row."""
    named = [(name, info[name]) for name in info if name not in _NOT_FIELDS]
    if isinstance(components := info.get("reward_components"), dict):
        named += [(f"reward_components.{name}", value) for name, value in components.items()]
    named += [(name, record[name]) for name in record if name not in _NOT_ROW_FIELDS]
    fields: dict[str, Any] = {}
    for name, value in named:
        kind = type(value)
        if kind is str:
            is_shown = 0 < len(value) <= _LONGEST_TEXT
            value = _clean(value) if is_shown else None
        elif is_shown := kind is float or kind is int or kind is bool:
            value = _float(value)
        if is_shown and len(name) <= _LONGEST_NAME and len(fields) < MOST_FIELDS:
            fields.setdefault(_clean(name) or name, value)
    return list(fields.items())
