"""Reading a server's answer, however much it sends: a body may be endless, and a few KB of gzip may become a GB."""

from __future__ import annotations

from typing import Any

import aiohttp

from gym_llm.engines.http_client import Reply
from gym_llm.errors import EngineError
from gym_llm.protocols.http.bodies import SMALL, ValueCounter
from gym_llm.utils import limits

_MAX_ERROR_BYTES = 1 << 16
_MAX_NAME = 1_000
_BYTES_PER_VALUE = 4  # at least, of a large answer; a token with its log probability takes 7 for each


async def read_body(reply: aiohttp.ClientResponse | Reply, limit: int | None = None) -> bytes:
    """The decompressed body of a 200 answer; of another status's its first 64 KiB at most.

    Raises:
        EngineError: If the body of a 200 answer has more than `limit` bytes (None: `utils/limits.py`). No more
            than a few KB beyond are read.
    """
    limit = limits.limit(limits.RESPONSE_BYTES) if limit is None else limit
    content = reply.content
    block = await content.readany()
    if content.at_eof() and len(block) <= limit:  # it came in one piece, as most do
        return block
    if reply.status != 200:
        limit = min(limit, _MAX_ERROR_BYTES)
    blocks, size = [], 0
    while block:
        blocks.append(block)
        size += len(block)
        if size > limit:
            reply.close()  # or the connection would be kept until the rest has come
            if reply.status != 200:
                break
            raise EngineError(
                f"{reply.url} sent more than {limit / (1 << 20):.3g} MiB: raise max_response_bytes, or "
                f"{limits.RESPONSE_BYTES}.",
                failure_kind="agent_run_error",
            )
        block = await content.readany()
    return b"".join(blocks)[:limit]


def check_density(payload: bytes) -> None:
    """Refuse a large body that is mostly brackets: parsing a megabyte of them would hold the event loop.

    Raises:
        EngineError: If it has a list, object or text for every 4 bytes.
    """
    most = len(payload) // _BYTES_PER_VALUE
    # The first count is quick, and brackets in texts are in it.
    if (
        len(payload) > SMALL
        and payload.count(b"[") + payload.count(b"{") > most
        and not ValueCounter(most).feed(payload)
    ):
        raise EngineError(
            f"The server's answer has more than {most:,} lists, objects and texts in {len(payload):,} bytes.",
            failure_kind="agent_run_error",
        )


def is_name(model: Any) -> bool:
    """Whether a server's name for a model is one: it is shown, and sent with every request."""
    return isinstance(model, str) and 0 < len(model) <= _MAX_NAME and model.isprintable()
