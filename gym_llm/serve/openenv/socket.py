"""Socket: one client's WebSocket. It answers a message before it reads the next one.

A client waits for the reply before it sends again. So one call of the event loop reads a frame, answers it and writes
the reply, without a task, queue or lock. The library aiohttp does the handshake and passes the bytes on as they arrive
(`RequestHandler.set_parser`, as for its own WebSocket).

Only a reply that must wait for a tool or a judge is a Future. Meanwhile the socket answers control frames and queues a
few messages; after that it stops reading until the reply is sent. It also stops reading while a client does not read
its replies.

We measured the server's CPU per episode with 64 sessions. The `WebSocketResponse` of aiohttp costs a fifth more. The
library picows costs a tenth less, but must own the port, and leaves fragments and their limits to its user.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from gym_llm.protocols.http.bodies import is_long, off_the_loop
from gym_llm.protocols.http.long_bodies import loads_in_pieces
from gym_llm.protocols.http.server_memory import REQUEST_SIZE
from gym_llm.serve.openenv.frames import (
    BINARY,
    CLOSE,
    GOING_AWAY,
    NORMAL,
    PING,
    PONG,
    PROTOCOL_ERROR,
    SERVER_ERROR,
    TEXT,
    UNSUPPORTED,
    BrokenFrame,
    FrameReader,
    LongMessage,
    closing_frame,
    frame,
)
from gym_llm.utils.json_codec import loads
from gym_llm.utils.limits import REQUEST_BYTES, limit
from gym_llm.utils.secrets import redacted_logger

DROPPED = 1006  # RFC 6455: the connection is gone, and nobody has said goodbye
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MOST_AHEAD, _MOST_AHEAD_BYTES = 16, 1 << 20  # messages that a client has sent without waiting for the answer
_MOST_UNSENT = 1 << 18  # bytes; an answer may be longer, then the next message waits until it is sent
_TURN_SECONDS = 0.002  # after which other clients have their turn
_SEND_SECONDS, _CLOSE_SECONDS = 30.0, 2.0
logger = redacted_logger(__name__)


class PendingReply(NamedTuple):
    """An answer that has to wait.

    Attributes:
        future: The Future that it waits for.
        answer: Makes the answer from the Future when it is done; may raise `CloseConnection`.
    """

    future: asyncio.Future[Any]
    answer: Callable[[asyncio.Future[Any]], bytes]


class CloseConnection(Exception):
    """Raised to close the connection, after a last message if there is one."""

    def __init__(self, answer: bytes | None = None, code: int = NORMAL, reason: str = "") -> None:
        super().__init__(reason)
        self.answer = answer
        self.code = code


MessageHandler = Callable[[Any], "bytes | PendingReply"]
"""Answers a client's messages, given as JSON values (invalid JSON: the ValueError); may raise `CloseConnection`."""


class Socket:
    """A connection that asked to become a WebSocket.

    Args:
        http: The request that asks for it.

    Attributes:
        closed_with: The close code, of either side; None while the connection is open.
    """

    __slots__ = (
        *(
            "_ahead",
            "_ended",
            "_frames",
            "_long",
            "_http",
            "_is_paused",
            "_is_scheduled",
            "_is_waiting",
            "_leave",
            "_loop",
            "_pong",
        ),
        *("_sending", "_talk", "_transport", "_writer", "closed_with"),
    )

    def __init__(self, http: web.Request) -> None:
        self._http = http
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._frames = FrameReader(limit(REQUEST_BYTES))
        self._long: LongMessage | None = None  # what it holds is released with its last reference
        self._ahead: deque[bytes] | None = None
        self._is_paused = self._is_scheduled = self._is_waiting = False
        self._pong: asyncio.Future[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._talk: MessageHandler | None = None
        self._leave: Callable[[int], None] | None = None
        self._writer: AbstractStreamWriter | None = None
        self._transport = cast(asyncio.Transport, http.transport)
        self.closed_with: int | None = None

    async def accept(self) -> web.StreamResponse:
        """The handshake.

        Raises:
            HTTPBadRequest: If the request asks for no WebSocket.
        """
        headers = self._http.headers
        asked = {word.strip().lower() for word in headers.get("Connection", "").split(",")}
        if headers.get("Upgrade", "").lower() != "websocket" or "upgrade" not in asked:
            raise web.HTTPUpgradeRequired(reason="a WebSocket is expected")
        if headers.get("Sec-WebSocket-Version") != "13" or not _is_key(key := headers.get("Sec-WebSocket-Key", "")):
            raise web.HTTPBadRequest(reason="not a WebSocket of version 13", headers={"Sec-WebSocket-Version": "13"})
        proof = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": proof}
        response = web.StreamResponse(status=101, headers=upgrade)
        response.force_close()
        self._writer = await response.prepare(self._http)
        return response

    async def serve(self, talk: MessageHandler, leave: Callable[[int], None]) -> None:
        """Answer the client's messages until either side closes the connection.

        Args:
            talk: Answers a message.
            leave: Called once with the close code, before the close frame is sent.
        """
        self._talk, self._leave = talk, leave
        protocol: Any = self._http.protocol
        try:
            protocol.set_parser(self)
            await self._ended
        finally:
            self._take_leave(GOING_AWAY)
            self._frames.close()
            self._long = self._ahead = None

    def send(self, message: bytes) -> None:
        """Send a text."""
        self._long = None
        if self._transport.is_closing():
            return  # the client is gone, and aiohttp about to say so
        self._transport.write(frame(TEXT, message))
        if self._transport.get_write_buffer_size() > _MOST_UNSENT and self._sending is None:
            self._is_waiting = True
            self._sending = self._loop.create_task(self._send_all())

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Say goodbye; the client has a moment to say so, too."""
        if self._take_leave(code):
            self._transport.write(closing_frame(code, reason))
            self._loop.call_later(_CLOSE_SECONDS, self._end)

    async def is_alive(self, seconds: float) -> bool:
        """Whether the client answers a ping in time."""
        if self.closed_with is not None:
            return False
        self._pong = self._pong or self._loop.create_future()
        self._transport.write(frame(PING, b""))
        await asyncio.wait({self._pong}, timeout=seconds)
        return self.closed_with is None and (self._pong is None or self._pong.done())

    def drop(self) -> None:
        """Cut the connection off."""
        self._lose(DROPPED)
        self._transport.abort()

    # -- what aiohttp calls ----------------------------------------------------------------------------------------

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Bytes have come."""
        if not (self._is_waiting or self._is_scheduled or self._ahead):
            message = self._frames.read_whole(data)
            if message is not None:
                self._answer(message)
                return False, b""
        if not self._ended.done():  # what comes after the end is not kept
            self._frames.feed(data)
            if not self._is_scheduled:
                self._work()
        return False, b""

    def feed_eof(self) -> None:
        """The connection is gone."""
        self._lose(DROPPED)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Read what has come, and answer it, as far as one may."""
        self._is_scheduled = False
        until = monotonic() + _TURN_SECONDS
        try:
            while not self._ended.done():
                if self._ahead and not self._is_waiting:
                    self._answer(self._ahead.popleft())
                elif self._ahead and (
                    len(self._ahead) >= _MOST_AHEAD or sum(map(len, self._ahead)) > _MOST_AHEAD_BYTES
                ):
                    self._pause()
                    return
                elif (message := self._frames.read()) is None:
                    break
                elif message[0] == TEXT:
                    self._hear(message[1])
                else:
                    self._control(*message)
                if monotonic() > until and (len(self._frames) or self._ahead):
                    self._is_scheduled = True
                    self._loop.call_soon(self._work)
                    if len(self._frames) > _MOST_AHEAD_BYTES:
                        self._pause()
                    return
        except BrokenFrame as broken:
            self._break_off(broken.code, str(broken))
        if self._is_paused and not self._ended.done():
            self._is_paused = False
            self._transport.resume_reading()

    def _hear(self, message: bytes) -> None:
        if not self._is_waiting:
            self._answer(message)
        elif self.closed_with is None:
            if self._ahead is None:
                self._ahead = deque()
            self._ahead.append(message)

    def _answer(self, message: bytes) -> None:
        if message.__class__ is LongMessage:
            self._read_long(message)  # type: ignore[arg-type]
            return
        value: Any
        try:
            value = loads(message)
        except ValueError as error:
            value = error
        REQUEST_SIZE.set(len(message))
        self._answer_value(value)

    def _read_long(self, message: LongMessage) -> None:
        self._long = message
        if not is_long(len(message), message.weight):
            self._answer(bytes(message))
            return
        self._is_waiting = True
        reading = self._loop.create_task(off_the_loop(loads_in_pieces, message))
        reading.add_done_callback(self._answer_read)

    def _answer_read(self, reading: asyncio.Task[Any]) -> None:
        if reading.cancelled():
            self._break_off(GOING_AWAY, "The server has been stopped.")
            return
        self._is_waiting = False
        REQUEST_SIZE.set(0 if self._long is None else self._long.held)
        self._answer_value(reading.exception() or reading.result())
        if not (self._is_waiting or self._is_scheduled):
            self._work()

    def _answer_value(self, value: Any) -> None:
        if self.closed_with is not None or self._transport.is_closing():
            return
        try:
            answer = self._talk(value)  # type: ignore[misc]
        except CloseConnection as farewell:
            self._say(farewell)
        except Exception:
            self._fail()
        else:
            if answer.__class__ is bytes:
                self.send(answer)  # type: ignore[arg-type]
                return
            pending = cast(PendingReply, answer)
            self._is_waiting = True
            pending.future.add_done_callback(lambda future: self._answer_late(pending))

    def _answer_late(self, pending: PendingReply) -> None:
        try:
            message = pending.answer(pending.future)
        except CloseConnection as farewell:
            self._say(farewell)
            return
        except asyncio.CancelledError:  # the server ends
            self._break_off(GOING_AWAY, "The server has been stopped.")
            return
        except Exception:
            self._fail()
            return
        if self.closed_with is None:
            self._is_waiting = False
            self.send(message)
            if not self._is_scheduled:
                self._work()

    def _say(self, farewell: CloseConnection) -> None:
        if farewell.answer is not None and self.closed_with is None:
            self.send(farewell.answer)
        self.close(farewell.code, str(farewell))

    def _control(self, kind: int, payload: bytes) -> None:
        if self._transport.is_closing():
            self._lose(DROPPED)
        elif kind == PING:
            self._transport.write(frame(PONG, payload))
            if self._transport.get_write_buffer_size() > _MOST_UNSENT:
                self.drop()  # whoever sends pings, and reads nothing
        elif kind == PONG:
            if self._pong is not None and not self._pong.done():
                self._pong.set_result(None)
            self._pong = None
        elif kind == CLOSE:
            code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else NORMAL
            if self._take_leave(code):
                self._transport.write(closing_frame(code if 1000 <= code < 5000 and code != 1005 else PROTOCOL_ERROR))
            self._end()
        elif kind == BINARY:
            raise BrokenFrame(UNSUPPORTED, "A message must be JSON text.")

    def _fail(self) -> None:
        logger.exception("A WebSocket's message could not be answered.")
        self._break_off(SERVER_ERROR, "The server has failed; its log says how.")

    def _break_off(self, code: int, reason: str) -> None:
        self.close(code, reason)
        self._end()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    async def _send_all(self) -> None:
        """Wait until the client has read what it was sent; one that does not is cut off."""
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await cast(AbstractStreamWriter, self._writer).drain()
        except TimeoutError:
            self.drop()
            return
        except ConnectionError:
            return
        finally:
            self._sending = None
        self._is_waiting = False
        if not self._is_scheduled:
            self._work()

    def _lose(self, code: int) -> None:
        self._take_leave(code)
        self._end()

    def _take_leave(self, code: int) -> bool:
        """Note that the connection is closed, if it is not yet."""
        if self.closed_with is not None:
            return False
        self.closed_with = code
        if self._leave is not None:
            self._leave(code)
        return True

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
            if self._pong is not None and not self._pong.done():
                self._pong.set_result(None)
            if not self._transport.is_closing():
                self._loop.call_later(_SEND_SECONDS, self._transport.abort)  # what it does not read is dropped then


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False
