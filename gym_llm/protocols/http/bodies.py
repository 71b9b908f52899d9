"""Bodies of requests, read under limits: bytes, seconds and JSON values, before any object is made of them.

All servers read bodies here, and messages of WebSockets are counted and parsed here, too. The protocol:

1. A `Content-Length` beyond the limit is refused before the body is read.
2. The JSON values of a body are counted on its bytes as they arrive (`ValueCounter`). A body of brackets would become
   thirty times as many bytes of objects, and every function behind it would walk through them.
3. Bytes above `SMALL` are reserved in the process's account (`ServerMemory`) until the request is answered.
4. Large bodies are parsed in one thread, one after the other (`_LANE`). A parser holds Python's lock. Therefore long
   lists of numbers are parsed in pieces, and the thread rests after a long body: the loop answers others meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from aiohttp import web

from gym_llm.errors import CallerError
from gym_llm.protocols.http.long_bodies import loads_in_pieces
from gym_llm.protocols.http.server_memory import MEMORY, REQUEST_SIZE
from gym_llm.protocols.http.value_counter import ValueCounter
from gym_llm.utils.json_codec import loads
from gym_llm.utils.limits import REQUEST_VALUES, limit

SMALL = 1 << 16
"""Bytes of a body that is neither counted nor reserved: its connection may buffer as many."""
SECONDS_TO_SEND = 60.0
"""Seconds that a client may take to send a body; each `_BYTES_PER_SECOND` that have arrived add one."""
_BYTES_PER_SECOND = 1 << 16
_INLINE_BYTES, _INLINE_VALUES = 1 << 20, 1 << 14  # parsed in three milliseconds
OBJECT_BYTES = 96
_REST, _LONG_SECONDS = 3, 0.005  # a parse that took longer is followed by a pause of three times its processor time
_SIMPLE_TYPES = ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded")
"""The types that pages of other sites may send without asking first."""


class BodyRefused(CallerError):
    """Raised for a body that is not read to its end.

    Args:
        message: The reason, for the client.
        status: The HTTP status: 408, 413 or 415.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def too_many_values() -> str:
    """Return the sentence about a body with too many values."""
    return f"A request has at most {limit(REQUEST_VALUES):,} JSON values ({REQUEST_VALUES})."


async def read_body(http: web.Request, *, most: int | None = None, values: int = 1, any_type: bool = False) -> bytes:
    """Return a request's body, once its bytes, values and seconds are within the limits. It is read once.

    Args:
        http: The request.
        most: The most bytes; None for the server's limit.
        values: How many times as many JSON values as usual the body may have.
        any_type: Whether the body may have the types that pages of other sites send without asking.

    Raises:
        BodyRefused: If there are too many values, the type is not JSON's, or the body takes too long.
        web.HTTPRequestEntityTooLarge: If there are too many bytes.
        ServerBusy: If the process has no memory left for it.
    """
    most = min(http.client_max_size or 1 << 62, most or 1 << 62)
    body = http.get(_BODY)
    if body is not None:
        if len(body) > most:
            raise web.HTTPRequestEntityTooLarge(most, len(body))
        return body
    if not any_type and http.can_read_body and http.content_type in _SIMPLE_TYPES:
        raise BodyRefused("The body must be JSON, with the header Content-Type: application/json.", 415)
    if (http.content_length or 0) > most:
        raise web.HTTPRequestEntityTooLarge(most, http.content_length or 0)
    if not http.can_read_body:
        body = b""
    elif http.content.is_eof() and http.content_length is not None and http.content_length <= SMALL:
        body = await http.read()  # all has come with the head
    else:
        body = await _receive(http, most, limit(REQUEST_VALUES) * values)
    http[_BODY] = body
    REQUEST_SIZE.set(len(body) + http.get(_WEIGHT, 0) * OBJECT_BYTES)
    return body


async def _receive(http: web.Request, most: int, most_values: int) -> bytes:
    body, counter = bytearray(), ValueCounter(most_values)
    begun = monotonic()
    try:
        while True:
            async with asyncio.timeout(begun + SECONDS_TO_SEND + len(body) / _BYTES_PER_SECOND - monotonic()):
                piece = await http.content.readany()
            if not piece:
                break
            if len(body) + len(piece) > most:
                raise web.HTTPRequestEntityTooLarge(most, len(body) + len(piece))
            if len(body) + len(piece) > SMALL:
                await _hold(http, len(piece))
            body += piece
            if not counter.feed(piece):
                raise BodyRefused(too_many_values(), 413)
    except TimeoutError:
        raise BodyRefused(f"A body must be sent within {SECONDS_TO_SEND:g} seconds, or faster.", 408) from None
    http[_WEIGHT] = counter.weight
    if len(body) > SMALL:
        MEMORY.add(counter.weight * OBJECT_BYTES)
        http[_HELD] = http.get(_HELD, 0) + counter.weight * OBJECT_BYTES
    return bytes(body)


async def read_value(
    http: web.Request, parse: Callable[[bytes], Any] = loads, *, most: int | None = None, values: int = 1
) -> Any:
    """Return the JSON value of a request's body. Each function parses it once.

    Args:
        http: The request.
        parse: Parses the body.
        most: As for `read_body`.
        values: As for `read_body`.

    Raises:
        ValueError: If the body is not JSON.
    """
    known = http.get(_VALUE)
    if known is not None and known[0] is parse:
        return known[1]
    body = await read_body(http, most=most, values=values)
    if is_long(len(body), http.get(_WEIGHT, 0)):
        value = await off_the_loop(loads_in_pieces if parse is loads else parse, body)
    else:
        value = parse(body)
    http[_VALUE] = parse, value
    return value


def is_long(size: int, weight: int) -> bool:
    """Whether a text of this size and with as many values is parsed off the loop."""
    return size > _INLINE_BYTES or weight > _INLINE_VALUES


async def off_the_loop(work: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function in the thread for long texts."""
    return await asyncio.get_running_loop().run_in_executor(_LANE, _rested, work, argument)


def release_body(http: web.BaseRequest) -> None:
    """Give back what a request's body has reserved: the request is answered."""
    held = http.get(_HELD, 0)
    if held:
        http[_HELD] = 0
        MEMORY.release(held)


async def _hold(http: web.Request, count: int) -> None:
    await MEMORY.reserve(count)
    http[_HELD] = http.get(_HELD, 0) + count


def _rested(work: Callable[[Any], Any], argument: Any) -> Any:
    begun = time.thread_time()
    try:
        return work(argument)
    finally:
        if (spent := time.thread_time() - begun) > _LONG_SECONDS:
            _LANE.submit(time.sleep, _REST * spent)  # before the next one, not before this one's answer


_LANE = ThreadPoolExecutor(1, "gym-llm-bodies")
_BODY: web.RequestKey[bytes] = web.RequestKey("body", bytes)
_HELD: web.RequestKey[int] = web.RequestKey("held", int)
_VALUE: web.RequestKey[tuple[Any, Any]] = web.RequestKey("value", tuple)
_WEIGHT: web.RequestKey[int] = web.RequestKey("weight", int)
