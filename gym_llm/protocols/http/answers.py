"""Bodies of servers' answers, read under a limit.

A server may send without end, and a few KB of gzip may become a GB. Each client has its own error for an answer that is
too long. `bodies.py` reads requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


class AnswerTooLong(Exception):
    """Raised for a body with more bytes than its limit."""


async def read_bounded(content: aiohttp.StreamReader, most: int, *, cut: bool = False) -> bytes:
    """Return a body. Little more is read than its limit.

    Args:
        content: The answer's `content`.
        most: The most bytes.
        cut: Whether to return the first bytes of a longer body.

    Raises:
        AnswerTooLong: If the body is longer, and is not to be cut.
    """
    blocks, size = [], 0
    while not content.at_eof():
        blocks.append(await content.readany())
        size += len(blocks[-1])
        if size > most:
            if not cut:
                raise AnswerTooLong
            break
    return b"".join(blocks)[:most]  # no copy of a body that came in one piece, as most do
