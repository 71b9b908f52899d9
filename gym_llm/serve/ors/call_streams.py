"""Streams of tool calls: a client whose connection breaks comes back for the result, and the call is made once.

The protocol: the first event, `task_id`, names the call. `chunk` events and the last one, `end`, have the JSON text of
the result; `error` has a sentence. A client that missed them sends the same request with the `task_id`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import Coroutine, Iterator
from typing import Any

from aiohttp import web

from gym_llm.protocols.http.sse import COMMENT
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redact, redacted_logger

_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_KEEP_ALIVE_SECONDS = 10.0
_CHUNK = 4_096
_MOST_KEPT = 8
_NOTE = "ors_calls"
logger = redacted_logger(__name__)


async def stream(
    http: web.Request, notes: dict[str, Any], call: Coroutine[Any, Any, Any], task_id: str | None
) -> web.StreamResponse:
    """Answer a request with the result of a call.

    Args:
        http: The request.
        notes: The session's notes, which have its last calls.
        call: What makes the call; not awaited if the call was made already.
        task_id: The name of a call that was made already; None for a new one.
    """
    calls: OrderedDict[str, asyncio.Task[Any]] = notes.setdefault(_NOTE, OrderedDict())
    if task_id is None:
        task_id = secrets.token_hex(16)
        calls[task_id] = asyncio.create_task(call)
        while len(calls) > _MOST_KEPT:
            calls.popitem(last=False)
    else:
        call.close()
    if (task := calls.get(task_id)) is None:
        return once(error="unknown task_id")
    answer = web.StreamResponse(headers=_HEADERS)
    await answer.prepare(http)
    with contextlib.suppress(ConnectionError):  # the client has left, and may come back
        await answer.write(_event("task_id", task_id))
        while not task.done():
            await asyncio.wait({task}, timeout=_KEEP_ALIVE_SECONDS)
            if not task.done():
                await answer.write(COMMENT)
        for event in _result(task):
            await answer.write(event)
        await answer.write_eof()
    return answer


def once(**events: str) -> web.Response:
    """Return a short answer of these events."""
    return web.Response(body=b"".join(_event(name, data) for name, data in events.items()), headers=_HEADERS)


def chunks(text: str) -> Iterator[str]:
    r"""Cut the text of a JSON value into pieces; none begins with a space, which the standard's client would drop.

    >>> list(chunks('"' + "a" * 4095 + ' b"'))[1]
    '\\u0020b"'
    """
    for start in range(0, len(text), _CHUNK):
        piece = text[start : start + _CHUNK]
        yield f"\\u{ord(piece[0]):04x}{piece[1:]}" if start and piece[0].isspace() else piece


def _result(task: asyncio.Task[Any]) -> Iterator[bytes]:
    if task.cancelled() or (error := task.exception()) is not None:
        told = not task.cancelled() and isinstance(error, BadRequest | EpisodeFailed)
        if not told and not task.cancelled():
            logger.error("A tool call failed.", exc_info=error)
        text = redact(str(error)) if told else "The server has failed; its log says how."
        yield _event("error", " ".join(text.split()) or "The episode has failed.")
        return
    pieces = list(chunks(dumps(task.result())[:-1].decode()))
    for place, piece in enumerate(pieces):
        yield _event("end" if place == len(pieces) - 1 else "chunk", piece)


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()
