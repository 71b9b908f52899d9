"""Reading a server's answer, however much it sends: a body may be endless, and a few KB of gzip may become a GB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from gym_llm.engines.http_client import Reply
from gym_llm.errors import EngineError
from gym_llm.protocols.http.answers import AnswerTooLong, read_bounded
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
    is_answer = reply.status == 200
    try:
        return await read_bounded(
            reply.content, limit if is_answer else min(limit, _MAX_ERROR_BYTES), cut=not is_answer
        )
    except AnswerTooLong:
        raise EngineError(
            f"{reply.url} sent more than {limit / (1 << 20):.3g} MiB: raise max_response_bytes, or "
            f"{limits.RESPONSE_BYTES}.",
            failure_kind="agent_run_error",
        ) from None
    finally:
        if not reply.content.at_eof():
            reply.close()  # or the connection would be kept until the rest has come


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


def model_root(model: dict[str, Any], models: list[dict[str, Any]]) -> str:
    """Return the folder or hub name that a server lists as a model's root (vLLM does); "" if it is of no use here.

    The root of an adapter is that of its base model. A folder may be on another machine.
    """
    base = next((entry for entry in models if entry["id"] == model.get("parent")), model)
    root = base.get("root")
    if not isinstance(root, str) or not is_name(root):
        return ""
    return root if Path(root).is_dir() or (root.count("/") < 2 and root[0] not in "./~") else ""
