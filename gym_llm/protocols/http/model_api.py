"""Model APIs over HTTP, for all model servers: read a body, write a whole response or a stream of events.

A stream begins when its response is ready, or after `STREAM_AFTER_SECONDS`. Before that an error still has an HTTP
status, by which clients decide whether to retry; later it is the last event of the stream. While the model works, the
server sends an event that clients skip every few seconds, so that no client or proxy gives up the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from gym_llm.errors import EngineError
from gym_llm.protocols.dialect import Body, Dialect, Refusal
from gym_llm.protocols.http.access import AccessDenied
from gym_llm.protocols.http.bodies import read_value
from gym_llm.protocols.http.http_server import JSON, http_problem, json_response
from gym_llm.records.failures import reason
from gym_llm.types import ResponseDict
from gym_llm.utils.secrets import redacted_logger

STREAM_AFTER_SECONDS = 5.0
"""Seconds that a stream waits for its response before it begins."""
KEEP_ALIVE_SECONDS = 10.0
"""Seconds between the events that keep a waiting stream open."""

_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_BLOCK = 1 << 16
logger = redacted_logger(__name__)


async def write_response(
    http: web.Request,
    dialect: Dialect,
    respond: Callable[[Body], Awaitable[ResponseDict]],
    lost: Callable[[], None] = lambda: None,
) -> web.StreamResponse:
    """Answer one request of a model API, with a stream if its body asks for one.

    Args:
        http: The request.
        dialect: The API.
        respond: Makes the response to a body. It is cancelled if the client disconnects.
        lost: Called if a response is not sent in full: the client disconnected, or this API cannot express it.

    Raises:
        Exception: Any error of `respond`, unless a stream has begun; see `refusal_of`.
    """
    body = await read_json(http)
    try:
        if not body.get("stream"):
            whole = json_response(dialect.answer(await respond(body), body))
            await whole.prepare(http)
            await whole.write_eof()  # here, not after the handler, to notice a client that disconnects
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
        await asyncio.wait({responding}, timeout=STREAM_AFTER_SECONDS)
        events = b"".join(dialect.events(responding.result(), body)) if responding.done() else b""
        stream = web.StreamResponse(headers=_STREAM)
        await stream.prepare(http)
        if not events:
            while not responding.done():
                await stream.write(dialect.waiting)
                await asyncio.wait({responding}, timeout=KEEP_ALIVE_SECONDS)
            try:
                events = b"".join(dialect.events(responding.result(), body))
            except Exception as error:
                lost()
                events = dialect.broken(refusal_of(http, error))
        for start in range(0, len(events), _BLOCK):
            await stream.write(events[start : start + _BLOCK])
        await stream.write_eof()
        return stream
    finally:
        responding.cancel()


def check_context(response: ResponseDict) -> None:
    """Raise a Refusal if the conversation was longer than the model's context."""
    if (response.get("incomplete_details") or {}).get("reason") == "context_length_exceeded":
        raise Refusal("The conversation is longer than the model's context.", code="context_length_exceeded")


async def read_json(http: web.Request) -> Body:
    """Return the JSON object that a client sent.

    Raises:
        Refusal: If the body is anything else.
    """
    # Browsers send other types across origins without asking: a page must not use a model that serves on loopback.
    if http.content_type != JSON:
        raise Refusal(f"The body must be JSON, with the header Content-Type: {JSON}.", 415)
    try:
        body = await read_value(http)
    except ValueError:
        raise Refusal("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Refusal(f"The body must be a JSON object, got {type(body).__name__}.")
    return body


def refusal_of(http: web.Request, error: Exception) -> Refusal:
    """Return an error as a client reads it; unexpected errors are logged, too."""
    match error:
        case Refusal():
            return error
        case AccessDenied():
            return Refusal(str(error), error.status, code="invalid_api_key" if error.status == 401 else None)
        case EngineError():
            is_unavailable = error.failure_kind.startswith(("transport", "provider"))  # the request is not wrong
            return Refusal(str(error), 502 if is_unavailable else 400, kind="engine_error")
        case RecursionError():  # only a client's body nests that deeply
            return Refusal("The body is nested too deeply.")
        case web.HTTPNotFound() | web.HTTPMethodNotAllowed():
            hint = "The base URL ends with /v1 for OpenAI's clients, without it for Anthropic's."
            return Refusal(f"{http.method} {http.path} is not served here. {hint}", error.status)
    if (problem := http_problem(http, error)) is not None:
        return Refusal(problem[1], problem[0])
    logger.error("A request failed.", exc_info=error)
    return Refusal(reason(error), 500, kind="server_error")
