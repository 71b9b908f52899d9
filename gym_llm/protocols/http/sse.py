"""Server-sent events: how a stream is written, and in what pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gym_llm.utils.json_codec import dumps

COMMENT = b": waiting\n\n"
"""A comment, which every reader of server-sent events skips."""

_SHORTEST, _MOST = 24, 64
_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def event(data: Any, name: str | None = None) -> bytes:
    r"""Return an event with JSON as its data; some APIs name their events.

    >>> event({"a": 1}, "b")
    b'event: b\ndata: {"a":1}\n\n'
    """
    line = dumps(data)
    # Clients that split a stream as `str.splitlines` does would break a line in two at these.
    for raw, escaped in _LINE_ENDS:
        if raw in line:
            line = line.replace(raw, escaped)
    return b"data: %b\n" % line if name is None else b"event: %b\ndata: %b\n" % (name.encode(), line)


def pieces(text: str) -> Iterator[str]:
    """A text in the pieces in which it is streamed: short ones, but never more than a few dozen.

    >>> [len(piece) for piece in pieces("x" * 50)]
    [24, 24, 2]
    """
    size = max(_SHORTEST, -(-len(text) // _MOST))
    return (text[start : start + size] for start in range(0, len(text), size))
