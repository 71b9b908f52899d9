"""A model API over HTTP, as all our model servers answer it: bodies in, whole answers or streams out.

A stream begins when its answer is there, or after `PATIENCE` seconds. Until then an error still has a status of HTTP's,
by which clients decide whether to ask again; afterwards it is the stream's last event. While the model works, an event
that clients skip is sent every few seconds, so that neither they nor a proxy in between give the connection up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gym_llm.data.files.jsonl import dumps, loads
from gym_llm.errors import EngineError
from gym_llm.protocols.dialect import Body, Dialect
from gym_llm.protocols.http.access import Unwelcome
from gym_llm.protocols.refusal import Refusal
from gym_llm.records.failures import reason
from gym_llm.types import ResponseDict
from gym_llm.utils.limits import REQUEST_BYTES, limit
from gym_llm.utils.secrets import redacted_logger

PATIENCE = 5.0
"""How long a stream waits for its answer before it begins, in seconds."""
KEEP_ALIVE = 10.0
"""How often a stream that waits says so, in seconds."""

_JSON = "application/json"
_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_BLOCK = 1 << 16
logger = redacted_logger(__name__)


async def tell(
    http: web.Request,
    dialect: Dialect,
    respond: Callable[[Body], Awaitable[ResponseDict]],
    lost: Callable[[], None] = lambda: None,
) -> web.StreamResponse:
    """Answer one request of this API, with a stream if its body asks for one.

    Args:
        http: The request.
        dialect: The API.
        respond: The response to a body. It is cancelled if the client leaves.
        lost: Called if a response is not told, or not to its end: the client has left, or this API cannot say it.

    Raises:
        Exception: What `respond` raises, unless a stream has begun; see `refusal_of`.
    """
    body = await read_json(http)
    try:
        if not body.get("stream"):
            whole = as_json(dialect.answer(await respond(body), body))
            await whole.prepare(http)
            await whole.write_eof()  # here, and not after the handler: a client that leaves meanwhile has lost it
            return whole
        return await _stream(http, dialect, body, asyncio.ensure_future(respond(body)), lost)
    except BaseException:
        lost()
        raise


async def _stream(
    http: web.Request,
    dialect: Dialect,
    body: Body,
    responding: asyncio.Future[ResponseDict],
    lost: Callable[[], None],
) -> web.StreamResponse:
    try:
        await asyncio.wait({responding}, timeout=PATIENCE)
        events = b"".join(dialect.events(responding.result(), body)) if responding.done() else b""
        stream = web.StreamResponse(headers=_STREAM)
        await stream.prepare(http)
        if not events:
            while not responding.done():
                await stream.write(dialect.waiting)
                await asyncio.wait({responding}, timeout=KEEP_ALIVE)
            try:
                events = b"".join(dialect.events(responding.result(), body))
            except Exception as error:
                lost()
                events = dialect.broken(refusal_of(error))
        for start in range(0, len(events), _BLOCK):
            await stream.write(events[start : start + _BLOCK])
        await stream.write_eof()
        return stream
    finally:
        responding.cancel()


def check_context(response: ResponseDict) -> None:
    """Raise the Refusal of a conversation that was longer than the model's context."""
    if (response.get("incomplete_details") or {}).get("reason") == "context_length_exceeded":
        raise Refusal("The conversation is longer than the model's context.", code="context_length_exceeded")


async def read_json(http: web.Request) -> Body:
    """The JSON object that a client has sent.

    Raises:
        Refusal: If it has sent anything else.
    """
    # Browsers send other types across origins without asking: a page must not use a model that serves on loopback.
    if http.content_type != _JSON:
        raise Refusal(f"The body is JSON, and the header says so: Content-Type: {_JSON}.", 415)
    try:
        body = loads(await http.read())
    except ValueError:
        raise Refusal("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Refusal(f"The body is a JSON object, got {type(body).__name__}.")
    return body


def as_json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """An answer of JSON."""
    return web.Response(body=dumps(body), status=status, headers=headers, content_type=_JSON)


def refusal_of(error: Exception) -> Refusal:
    """What a client is told of an error; one that nobody expected goes into the log, too."""
    match error:
        case Refusal():
            return error
        case Unwelcome():
            return Refusal(str(error), error.status, code="invalid_api_key" if error.status == 401 else None)
        case EngineError():
            elsewhere = error.failure_kind.startswith(("transport", "provider"))  # not what was asked is wrong
            return Refusal(str(error), 502 if elsewhere else 400, kind="engine_error")
        case web.HTTPRequestEntityTooLarge():
            return Refusal(f"A request has at most {limit(REQUEST_BYTES):,} bytes ({REQUEST_BYTES}).", 413)
        case RecursionError():  # nothing else here goes as deep as what a client sends
            return Refusal("The body is nested too deeply.")
        case web.RequestPayloadError():
            return Refusal("The body is not what its headers say: its encoding, or its length.")
        case web.HTTPException():
            return Refusal(
                f"Nothing is here for this method and path ({error.reason}). The base URL of OpenAI's clients ends "
                "with /v1, that of Anthropic's does not.",
                error.status,
            )
    logger.error("A request failed.", exc_info=error)
    return Refusal(reason(error), 500, kind="server_error")
