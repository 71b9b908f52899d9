"""Reading single lines: what is refused, and that nothing else is."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import often

from gym_llm.data.files.line_parsing import parse_line
from gym_llm.errors import BadRow

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": \n', "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}\n', "byte order mark"),
        (b'{"a": 1}\r\n', "CRLF"),
        (b"\n", "empty"),
        (b"  \n", "empty"),
        (b'{"a": "\xff"}\n', "not valid UTF-8"),
        (b'{"a": 1, "b": [{"c": 1, "c": 2}]}\n', "same key twice"),
        (b'{"a": NaN}\n', "NaN"),
        (b'{"a": -Infinity}\n', "NaN and Infinity"),
        (b"[1, 2]\n", "got a list"),
        (b'"text"\n', "got a string"),
        (b"3\n", "got a number"),
        (b"null\n", "got null"),
        (b'{"a": 1} {"b": 2}\n', "not JSON"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", "200 levels"),
        (b"[" * 5000 + b"]" * 5000, "not JSON"),
    ],
)
def test_a_bad_line_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(BadRow, match=reason):
        parse_line(line)


def test_the_place_of_a_fault_is_not_part_of_its_reason() -> None:
    faults = []
    for line in (b'{"a": x}', b'{"abc": 1, "b": x}'):
        with pytest.raises(BadRow) as caught:
            parse_line(line)
        faults.append(caught.value)
    assert faults[0].reason == faults[1].reason == "not JSON"
    assert "position 7" in faults[0].detail
    assert "position 17" in faults[1].detail


@pytest.mark.parametrize(
    "line",
    [
        rb'{"a": 1, "a" : 2}',
        rb'{"a"	: 1, "a": 2}',
        rb'{"a":1,"a":1}',
        rb'{"\u0061": 1, "a": 2}',
        rb'{"x": "\u0022:", "a": 1, "a": 2}',
        rb'{"x": "\"\u003a", "a": 1, "a": 2}',
        rb'{"x": "\"\u003A", "a": 1, "a": 2}',
        rb'{"x": {"a": "\"\u003A"}, "x": 2}',
        rb'{"a": "\\", "a": "\\\""}',
    ],
)
def test_repeated_keys_are_found_however_they_are_written(line: bytes) -> None:
    with pytest.raises(BadRow, match="twice"):
        parse_line(line)


def write(value: Any, style: Random, repeat: list[bool]) -> str:
    """JSON in any layout, with some keys repeated."""
    space = style.choice(["", " ", "\t", "  "])
    if isinstance(value, dict):
        pairs = list(value.items())
        if pairs and style.random() < 0.1:
            repeat[0] = True
            pairs.append(style.choice(pairs))
        parts = (f"{text(k, style)}{space}:{space}{write(v, style, repeat)}" for k, v in pairs)
        return "{" + f"{space},{space}".join(parts) + "}"
    if isinstance(value, list):
        return "[" + f",{space}".join(write(item, style, repeat) for item in value) + "]"
    return text(value, style) if isinstance(value, str) else json.dumps(value)


def text(value: str, style: Random) -> str:
    return '"' + "".join(character(c, style) for c in value) + '"'


def character(value: str, style: Random) -> str:
    if ord(value) < 0x10000 and style.random() < 0.2:
        return style.choice(["\\u%04x", "\\u%04X"]) % ord(value)
    return json.dumps(value, ensure_ascii=style.random() < 0.5)[1:-1]


@pytest.mark.slow
@settings(max_examples=often(100, 150), deadline=None)
@given(st.dictionaries(TEXT, VALUES | st.just('say ":" and " :'), max_size=5), st.randoms())
def test_exactly_the_lines_that_repeat_a_key_are_refused(row: dict[str, Any], style: Random) -> None:
    repeated = [False]
    line = write(row, style, repeated).encode()
    if repeated[0]:
        with pytest.raises(BadRow, match="twice"):
            parse_line(line)
    else:
        assert parse_line(line) == row
