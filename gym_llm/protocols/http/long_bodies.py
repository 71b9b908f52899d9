"""Parsing of long JSON texts in a thread, in pieces between which other threads run.

A JSON parser holds Python's lock until it returns. Two million numbers take it 80 ms, and the event loop cannot answer
meanwhile. Nearly all long bodies are long because of lists of numbers (token ids, pixels). Therefore:

1. Find runs of numbers and commas, block by block.
2. Parse each run in pieces, and put a text of random digits between its first and its last comma.
3. Parse what is left, and put the numbers where the texts are.

A run inside a string stays where it is. A text between two commas can only be a member of a list.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

from gym_llm.protocols.http.value_counter import ValueCounter
from gym_llm.utils.json_codec import loads

PIECE = 1 << 16
"""Bytes of numbers that are parsed at once, which takes half a millisecond."""
_NUMBERS = b"0123456789+-.eE, \t\r\n"
_START = 64  # bytes of a block that usually show that it is not one of numbers


def loads_in_pieces(body: bytes) -> Any:
    """Parse a JSON text as `loads` does, in pieces where it has many numbers.

    Raises:
        ValueError: If it is not JSON.

    >>> body = b'{"a": [[%b], "b"]}' % b",".join([b"70000"] * 50_000)
    >>> loads_in_pieces(body) == loads(body)
    True
    """
    name = token_hex(16)
    kept: list[bytes] = []
    runs: dict[str, list[Any]] = {}
    counter = ValueCounter(len(body) * 2)
    end = 0
    for start, stop in _runs(body):
        before = body[end:start]
        for place in range(0, len(before), PIECE):
            counter.count(before[place : place + PIECE])
        kept.append(before)
        end = start
        if not counter.is_in_string:
            runs[f"{name}{len(runs)}"] = _numbers(body, start, stop)
            kept.append(b'"%b%d"' % (name.encode(), len(runs) - 1))
            end = stop
    if not runs:
        return loads(body)
    value = loads(b"".join([*kept, body[end:]]))
    _fill(value, runs)
    return value


def _runs(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield the places between the first and the last comma of each long run of numbers."""
    start = None
    for place in range(0, len(body) + PIECE, PIECE):
        block = body[place : place + PIECE]
        others = block[:_START].translate(None, _NUMBERS) or block.translate(None, _NUMBERS)
        if len(block) == PIECE and not others:
            start = place if start is None else start
            time.sleep(0)
        elif start is not None:
            first, last = body.find(b",", start, place), body.rfind(b",", start, place)
            if first < last:
                yield first + 1, last
            start = None


def _numbers(body: bytes, start: int, end: int) -> list[Any]:
    numbers: list[Any] = []
    while start <= end:
        comma = body.find(b",", min(start + PIECE, end), end)
        stop = end if comma < 0 else comma
        piece = loads(b"[%b]" % body[start:stop])
        if not piece:
            raise ValueError(f"a number is missing between two commas: byte {start}")
        numbers += piece
        start = stop + 1
        time.sleep(0)  # lets the event loop run
    return numbers


def _fill(value: Any, runs: dict[str, list[Any]]) -> None:
    """Put the numbers where their texts are."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        members = each.values() if isinstance(each, dict) else each
        waiting += [member for member in members if isinstance(member, dict | list) and member]
        if isinstance(each, list) and any(isinstance(member, str) and member in runs for member in each):
            filled: list[Any] = []
            for member in each:
                if isinstance(member, str) and member in runs:
                    filled += runs[member]
                else:
                    filled.append(member)
            each[:] = filled
