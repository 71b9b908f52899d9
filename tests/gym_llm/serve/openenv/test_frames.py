"""WebSocket frames: what RFC 6455 says of a client's, however they are cut into pieces."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_llm.serve.openenv.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    TEXT,
    BrokenFrame,
    FrameReader,
    closing_frame,
    frame,
)


def masked(kind: int, payload: bytes, *, final: bool = True, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    """A frame as a client sends it, encode byte by byte."""
    length = len(payload)
    first = (0x80 if final else 0) | kind
    if length < 126:
        head = bytes((first, 0x80 | length))
    elif length < 1 << 16:
        head = bytes((first, 0x80 | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((first, 0x80 | 127)) + length.to_bytes(8, "big")
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


def read_all(reader: FrameReader) -> list[tuple[int, bytes]]:
    messages = []
    while (message := reader.read()) is not None:
        messages.append(message)
    return messages


@given(st.lists(st.binary(max_size=700), max_size=6), st.integers(1, 50))
def test_messages_come_out_as_they_went_in_however_they_are_cut(payloads: list[bytes], step: int):
    data = b"".join(masked(TEXT, payload, mask=os.urandom(4)) for payload in payloads)
    reader, messages = FrameReader(1 << 20), []
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
        messages += read_all(reader)
    assert messages == [(TEXT, payload) for payload in payloads]
    assert len(reader) == 0


def test_long_messages_have_long_lengths_both_ways():
    for length in (125, 126, 511, 512, 65_535, 65_536, 300_001):
        payload = os.urandom(length)
        reader = FrameReader(1 << 20)
        reader.feed(masked(BINARY, payload))
        assert reader.read() == (BINARY, payload)
        sent = frame(TEXT, payload)
        assert sent.endswith(payload) and len(sent) - length == (2 if length < 126 else 4 if length < 65_536 else 10)


def test_a_message_in_pieces_may_have_a_ping_between_them():
    reader = FrameReader(100)
    reader.feed(masked(TEXT, b"one ", final=False) + masked(PING, b"?") + masked(CONTINUATION, b"two"))
    assert read_all(reader) == [(PING, b"?"), (TEXT, b"one two")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"not masked"), 1002),
        (bytes((0xC1, 0x80, 0, 0, 0, 0)), 1002),  # a bit of an extension
        (masked(0x3, b""), 1002),
        (masked(0xB, b""), 1002),
        (masked(PING, b"x" * 126), 1002),
        (masked(PING, b"x", final=False), 1002),
        (masked(CONTINUATION, b"of nothing"), 1002),
        (masked(TEXT, b"a", final=False) + masked(TEXT, b"b"), 1002),
        (masked(TEXT, b"x" * 101), 1009),
        (masked(TEXT, b"x" * 60, final=False) + masked(CONTINUATION, b"x" * 60), 1009),
        (bytes((0x81, 0xFF)) + (1 << 62).to_bytes(8, "big"), 1009),  # before any of it is kept
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, code: int):
    reader = FrameReader(100)
    reader.feed(data)
    with pytest.raises(BrokenFrame) as broken:
        read_all(reader)
    assert broken.value.code == code


def test_a_goodbye_has_a_code_and_as_much_of_a_reason_as_fits():
    assert closing_frame(1000) == bytes((0x80 | CLOSE, 2)) + (1000).to_bytes(2, "big")
    long = closing_frame(1001, "é" * 200)
    assert long[1] <= 125
    long[4:].decode()
