"""Messages to and from a sandbox: a header in JSON, and pieces of bytes."""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

HEADER_BYTES = 1 << 20
PIECES_BYTES = 1 << 30
LENGTH = struct.Struct(">I")

Message = tuple[dict[str, Any], list[bytes]]


def pack(header: dict[str, Any], pieces: list[bytes]) -> bytes:
    """A message as bytes: the header's length, the header with the pieces' sizes, the pieces."""
    text = json.dumps({**header, "sizes": [len(piece) for piece in pieces]}).encode()
    return b"".join([LENGTH.pack(len(text)), text, *pieces])


def header_of(text: bytes) -> dict[str, Any]:
    """Return the header, checked: an object with valid sizes.

    Raises:
        ValueError: If it is invalid.
    """
    header = json.loads(text)
    sizes = header.get("sizes") if isinstance(header, dict) else None
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a message without sizes")
    if sum(sizes) > PIECES_BYTES:
        raise ValueError("a message that is too large")
    return header


def send(descriptor: int, header: dict[str, Any], pieces: list[bytes]) -> None:
    """Write a message whole."""
    data = memoryview(pack(header, pieces))
    while data:
        data = data[os.write(descriptor, data) :]


def receive(descriptor: int, limit: int = PIECES_BYTES, deadline: float | None = None) -> Message:
    """Read a message whole.

    Args:
        descriptor: The descriptor to read from.
        limit: Bytes that its pieces may have together.
        deadline: The monotonic time after which it stops waiting.

    Raises:
        EOFError: If the other side is gone.
        TimeoutError: If the deadline passed.
        ValueError: If the message is invalid or too large.
    """
    (length,) = LENGTH.unpack(_read(descriptor, LENGTH.size, deadline))
    if length > min(limit, HEADER_BYTES):
        raise ValueError("a header that is too large")
    header = header_of(_read(descriptor, length, deadline))
    if sum(header["sizes"]) > limit:
        raise ValueError("a message that is too large")
    return header, [_read(descriptor, size, deadline) for size in header["sizes"]]


def _read(descriptor: int, size: int, deadline: float | None) -> bytes:
    parts = []
    while size:
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError("no whole message in time")
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError("the other side is gone")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
