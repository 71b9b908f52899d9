"""Endpoint: one URL that speaks MCP over HTTP ("streamable HTTP"), in both kinds of revisions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gym_llm.protocols.http.bodies import BodyRefused, read_value, release_body
from gym_llm.protocols.http.server_memory import ServerBusy
from gym_llm.protocols.mcp.jsonrpc import (
    CANCELLED,
    INTERNAL_ERROR,
    MOST_IN_A_BATCH,
    PARSE_ERROR,
    McpError,
    Message,
    encode,
    error_of,
    id_of,
    parse,
    read_message,
    result_of,
)
from gym_llm.protocols.mcp.methods import answer, initialized
from gym_llm.protocols.mcp.revisions import (
    ASSUMED,
    BATCHING,
    SESSION_HEADER,
    STATUS,
    VERSION_HEADER,
    agreed,
    check_stateless,
    is_stateless,
)
from gym_llm.protocols.mcp.toolbox import Caller, Toolbox
from gym_llm.utils.limits import CALLS, limit
from gym_llm.utils.secrets import redacted_logger

MOST_BYTES = 1 << 22
"""The largest body that is answered, if the application's `client_max_size` is not less."""
STREAM_AFTER_SECONDS = 10.0
"""Seconds before an answer that takes longer is given as a stream, and between the comments that keep that open."""

_JSON, _EVENTS = "application/json", "text/event-stream"
_WAITING = b": waiting\n\n"
_FRESH = {"Cache-Control": "no-cache"}
logger = redacted_logger(__name__)


class Endpoint:
    """Speaks MCP for servers with tools: `application.router.add_route("*", "/mcp", endpoint.handle)`.

    Each request is read as one of the revisions with a handshake (2024-11-05 to 2025-11-25) or of the stateless one
    (2026-07-28). Answers are JSON. One that takes longer than `STREAM_AFTER_SECONDS` becomes a stream of server-sent
    events, if the client accepts one, with comments that keep the connection open. GET is answered 405: the server
    never sends a message that was not asked for.

    A disconnect cancels a handshake or a stateless request. A call after a handshake goes on, as those revisions say:
    only its cancel notification, the end of the session or `close` cancels it.

    Args:
        toolbox_of: Returns a caller's tools. It may raise `McpError`, with status 404 for an unknown session.
        open_session: Called for a handshake; returns the session's id, which must be hard to guess, or None for no
            id. Without it there are no ids, and only URL and headers separate callers.
        end_session: Called when a client ends its session (DELETE), and when a handshake fails after it was opened.
    """

    def __init__(
        self,
        toolbox_of: Callable[[Caller], Awaitable[Toolbox]],
        *,
        open_session: Callable[[Caller, dict[str, Any]], Awaitable[str | None]] | None = None,
        end_session: Callable[[Caller], Awaitable[None]] | None = None,
    ) -> None:
        self._toolbox_of = toolbox_of
        self._open_session = open_session
        self._end_session = end_session
        self._at_once: Counter[int] = Counter()  # of a toolbox, by its id(): it lives as long as a call of it does
        self._calls: dict[tuple[str, str | int], asyncio.Task[Any]] = {}  # by session and request
        self._tasks: set[asyncio.Task[Any]] = set()

    async def handle(self, http: web.Request) -> web.StreamResponse:
        """Answer any request to the endpoint's URL."""
        try:
            if http.method == "POST":
                return await self._post(http)
            if http.method == "DELETE" and self._end_session is not None:
                return await self._delete(http)
            allowed = "POST, DELETE" if self._end_session is not None else "POST"
            error = McpError(f"MCP is spoken with POST here, not {http.method[:20]}.")
            return _json(error_of(None, error), 405, {"Allow": allowed})
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as failure:
            error = _told(failure)
            return _json(error_of(None, error), error.status or STATUS.get(error.code, 500))
        finally:
            release_body(http)

    async def close(self) -> None:
        """Cancel all calls under way."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- HTTP --------------------------------------------------------------------------------------------------------

    async def _post(self, http: web.Request) -> web.StreamResponse:
        takes_json, takes_events = _accepted(http)
        if not (takes_json or takes_events):
            raise McpError(f"An answer is {_JSON} or {_EVENTS}: accept both.", status=406)
        # Browsers send other types across origins without asking.
        if http.content_type != _JSON:
            raise McpError(f"The body must be JSON, with the header Content-Type: {_JSON}.", status=415)
        value = await _value(http)
        stateless = is_stateless(http.headers, value)
        headers: dict[str, str] = {}
        task = asyncio.ensure_future(
            self._stateless(http, value) if stateless else self._of_session(http, value, headers)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Its answer says in its headers which session it began: a client that never reads it has none.
        is_handshake = isinstance(value, dict) and value.get("method") == "initialize"
        try:
            await asyncio.wait({task}, timeout=STREAM_AFTER_SECONDS if takes_events and not is_handshake else None)
            if not task.done():
                return await self._stream(http, task)
        except (asyncio.CancelledError, ConnectionError):
            if stateless or is_handshake:
                task.cancel()
            raise
        status, answered = task.result()
        if answered is None:
            return web.Response(status=202)
        if takes_json or status != 200:
            return _json(answered, status, headers)
        return web.Response(body=_event(answered), content_type=_EVENTS, headers={**headers, **_FRESH})

    async def _stream(self, http: web.Request, task: asyncio.Task[tuple[int, Any]]) -> web.StreamResponse:
        """Give an answer that takes long as an event, after as many comments as there have to be."""
        response = web.StreamResponse(headers={"Content-Type": _EVENTS, **_FRESH})
        await response.prepare(http)
        while not task.done():
            await response.write(_WAITING)
            await asyncio.wait({task}, timeout=STREAM_AFTER_SECONDS)
        await response.write(_event(task.result()[1]))
        await response.write_eof()
        return response

    async def _delete(self, http: web.Request) -> web.Response:
        assert self._end_session is not None
        caller = Caller(http, self._session(http), http.headers.get(VERSION_HEADER, ASSUMED), "DELETE")
        if caller.session_id is None:
            raise McpError(f"The header {SESSION_HEADER} says which session ends.", status=400)
        await self._toolbox_of(caller)  # who has none is told so
        self._cancel(caller.session_id)
        await self._end_session(caller)
        return web.Response(status=204)

    # -- messages ----------------------------------------------------------------------------------------------------

    async def _stateless(self, http: web.Request, value: Any) -> tuple[int, Any]:
        """The status and the answer, if there is one, of a message without a handshake."""
        message: Message | None = None
        try:
            if isinstance(value, list):
                raise McpError("A body is one message in this revision, not a list.", status=400)
            message = read_message(value)
            if message is None or message.id is None:
                return 202, None  # all that a client could notify of is done by closing the connection
            version = check_stateless(http.headers, message)
            return 200, await self._answer(Caller(http, None, version, message.method, message.meta), message)
        except Exception as failure:
            error = _told(failure)
            name = message.id if message is not None else id_of(value)
            return error.status or STATUS.get(error.code, 200), error_of(name, error)

    async def _of_session(self, http: web.Request, value: Any, headers: dict[str, str]) -> tuple[int, Any]:
        """Return the status and the answer of a body of the revisions with a handshake, which may be a batch.

        The id of a new session is written to `headers`.
        """
        if not isinstance(value, list):
            return await self._one(http, value, headers)
        if http.headers.get(VERSION_HEADER, ASSUMED) not in BATCHING:
            return 400, error_of(None, McpError("A body is one message in this revision, not a list."))
        if not 0 < len(value) <= MOST_IN_A_BATCH:
            return 400, error_of(None, McpError(f"A batch has between 1 and {MOST_IN_A_BATCH} messages."))
        if any(isinstance(each, dict) and each.get("method") == "initialize" for each in value):
            return 400, error_of(None, McpError("A handshake is no part of a batch."))
        answers = await asyncio.gather(*[self._one(http, each, headers) for each in value])
        said = [each for _, each in answers if each is not None]
        return (200, said) if said else (202, None)

    async def _one(self, http: web.Request, value: Any, headers: dict[str, str]) -> tuple[int, Any]:
        message: Message | None = None
        try:
            message = read_message(value)
            version = http.headers.get(VERSION_HEADER, ASSUMED)
            if message is not None and message.method == "initialize" and message.id is not None:
                return 200, await self._handshake(http, message, headers)
            method, meta = (message.method, message.meta) if message is not None else ("", {})
            caller = Caller(http, self._session(http), version, method, meta)
            if self._open_session is not None and message is not None and message.id is None:
                await self._toolbox_of(caller)  # who has no session is told so
            if message is None or message.id is None:
                self._notified(message, caller)
                return 202, None
            return 200, await self._answer(caller, message)
        except Exception as failure:
            error = _told(failure)
            return error.status or 200, error_of(message.id if message is not None else id_of(value), error)

    async def _handshake(self, http: web.Request, message: Message, headers: dict[str, str]) -> dict[str, Any]:
        version = agreed(message.params.get("protocolVersion"))
        caller = Caller(http, None, version, message.method, message.meta)
        session_id = None if self._open_session is None else await self._open_session(caller, message.params)
        caller = Caller(http, session_id, version, message.method, message.meta)
        try:
            result = await initialized(message, await self._toolbox_of(caller))
        except BaseException:
            if self._end_session is not None and session_id is not None:
                await self._end_session(caller)
            raise
        if session_id is not None:
            headers[SESSION_HEADER] = session_id
        return result_of(message, result)

    def _notified(self, message: Message | None, caller: Caller) -> None:
        if message is None or message.method != "notifications/cancelled" or caller.session_id is None:
            return
        name = message.params.get("requestId")
        if isinstance(name, str | int) and (task := self._calls.get((caller.session_id, name))) is not None:
            task.cancel()

    def _session(self, http: web.Request) -> str | None:
        return None if self._open_session is None else http.headers.get(SESSION_HEADER)

    def _cancel(self, session_id: str) -> None:
        for (session, _), task in [*self._calls.items()]:
            if session == session_id:
                task.cancel()

    async def _answer(self, caller: Caller, message: Message) -> dict[str, Any]:
        toolbox = await self._toolbox_of(caller)
        most = limit(CALLS)
        if self._at_once[id(toolbox)] >= most:
            raise McpError(f"{most:,} requests are under way already: wait for one of them.", INTERNAL_ERROR)
        self._at_once[id(toolbox)] += 1
        assert message.id is not None
        key = None if caller.session_id is None else (caller.session_id, message.id)
        work = asyncio.ensure_future(answer(message, toolbox, caller.version))
        if key is not None:
            self._calls[key] = work
        try:
            return result_of(message, await work)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise McpError("The call was cancelled.", CANCELLED) from None
        finally:
            if key is not None and self._calls.get(key) is work:
                del self._calls[key]
            self._at_once[id(toolbox)] -= 1
            if not self._at_once[id(toolbox)]:
                del self._at_once[id(toolbox)]


def _told(failure: Exception) -> McpError:
    if isinstance(failure, McpError):
        return failure
    logger.error("An MCP request failed.", exc_info=failure)
    return McpError("The server has failed; its log says how.", INTERNAL_ERROR)


def _accepted(http: web.Request) -> tuple[bool, bool]:
    accept = ",".join(http.headers.getall("Accept", ("*/*",)))
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    return bool(kinds & {_JSON, "application/*", "*/*"}), bool(kinds & {_EVENTS, "text/*"})


async def _value(http: web.Request) -> Any:
    try:
        return await read_value(http, parse, most=MOST_BYTES)
    except BodyRefused as refused:
        raise McpError(str(refused), status=refused.status) from None
    except ServerBusy as busy:
        raise McpError(str(busy), INTERNAL_ERROR, status=503) from None
    except web.HTTPRequestEntityTooLarge:
        raise McpError(f"A body has at most {MOST_BYTES:,} bytes.", status=413) from None
    except web.RequestPayloadError:
        raise McpError("The body is not encoded as the headers say.", PARSE_ERROR, status=400) from None


def _event(answered: Any) -> bytes:
    return b"event: message\ndata: %b\n\n" % encode(answered)


def _json(answered: Any, status: int, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=encode(answered), status=status, content_type=_JSON, headers=headers)
