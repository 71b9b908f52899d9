"""An episode for the page: its record as it is in the file, cut where it is too large for a browser."""

from __future__ import annotations

from typing import Any

from gym_llm.errors import DataError
from gym_llm.evaluation.health_signs import SIGNS, record_signs
from gym_llm.evaluation.view.episode_table import UNREADABLE
from gym_llm.evaluation.view.index import RunIndex
from gym_llm.evaluation.view.scan import LONGEST_LINE
from gym_llm.records.record import check_record
from gym_llm.utils.json_codec import dumps, loads

LARGEST = 16 << 20
"""Bytes of a record that is shown whole."""

_EXCERPT = 10_000
_LONGEST_TEXT = 200_000
_MOST_ITEMS = 5_000
_DEEPEST = 100


def episode_json(run: RunIndex, n: int) -> bytes:
    """An episode's record as JSON.

    The record has `view_signs` in addition: signs of trouble (`gym_llm.evaluation.health_signs`) and what they mean.
    A record of more than `LARGEST` bytes has its long texts and lists cut, and a `view_note` that says so. A line that
    is not a record is an object with `view_error`, why not, and `view_text`, how it begins.

    Raises:
        DataError: If the line is not there any more.
    """
    for outcome, preview in run.table.select("outcome, preview", "WHERE n = ?", (n,)):
        if outcome == UNREADABLE:
            return _unreadable(run.line(n, _EXCERPT), preview or "")
    line = run.line(n, LONGEST_LINE)
    try:
        record = loads(line)
    except ValueError:  # in its trajectory, which was not looked at for the list
        return _unreadable(line[:_EXCERPT], "cannot be read: it is not JSON")
    if len(line) <= LARGEST:
        signs = _signs(record)
        return line.rstrip().removesuffix(b"}") + b',"view_signs":' + dumps(signs).rstrip() + b"}" if signs else line
    note = f"This record has {len(line):,} bytes: its long texts and lists are cut. The file has them whole."
    shown = _cut(record, _DEEPEST)  # as it is in the file; reading it as a record changes old ones
    return dumps({**shown, "view_note": note, "view_signs": _signs(record)})


def _signs(record: Any) -> dict[str, str]:
    try:
        return {name: SIGNS[name] for name in record_signs(check_record(record))}
    except DataError:  # a record of something else, which is shown all the same
        return {}


def _unreadable(line: bytes, why: str) -> bytes:
    return dumps({"view_error": why, "view_text": line.decode(errors="replace")})


def _cut(value: Any, depth: int) -> Any:
    """A value with the beginnings of its texts and lists."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}… ({len(value):,} characters)"
    if depth == 0:
        return "…"
    if isinstance(value, list):
        return [_cut(item, depth - 1) for item in value[:_MOST_ITEMS]]
    if isinstance(value, dict):
        return {name[:_LONGEST_TEXT]: _cut(value[name], depth - 1) for name in list(value)[:_MOST_ITEMS]}
    return value
