"""Several processes behind one port; a request is forwarded to the process that has its session.

The protocol:

1. The processes (workers) share the server's port. The kernel distributes connections among them without reading them.
2. A worker asks the frontend for the session id of a request (`Frontend.session_of`). The id names the worker that has
   the session: `w3g1-...` is the third worker in its first life. The hash of a client's own id names a worker, too.
3. A request for another worker is forwarded to that worker's own listener. This is a Unix socket in a folder of this
   user, or a port on other machines. It requires the secret that all workers share.
4. A worker answers every request that arrives at its own listener, and never forwards it again.

A worker answers a request without a session itself. If the worker is full, the one with most room answers. A front (of
Ray actors) plays no episodes: it is a worker without a number that forwards everything.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web
from multidict import CIMultiDict
from yarl import URL

from gym_llm.protocols.http.access import AccessDenied
from gym_llm.protocols.http.bodies import SMALL, read_body
from gym_llm.protocols.http.http_server import url_of
from gym_llm.protocols.http.server_memory import MEMORY, ServerBusy
from gym_llm.serve.sessions import LOST, AtCapacity, SessionLost, UnknownSession, worker_of, worker_prefix
from gym_llm.utils.limits import REQUEST_BYTES, limit

_SECRET = "X-Gym-LLM-Inner"
_HOP_BY_HOP = frozenset(
    (
        *("connection", "content-encoding", "content-length", "expect", "keep-alive", "proxy-authenticate"),
        *("proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "x-gym-llm-inner"),
    )
)
"""Headers of one connection, and those of a body's encoding and length, because the body was read."""
_OWN_DEFAULTS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_ROOM_SECONDS = 0.25
_NEWS_SECONDS = 0.5
_RESTART_SECONDS = 10.0
_GATHER_SECONDS = 2.0


class Place(NamedTuple):
    """The address of a worker.

    Attributes:
        generation: The worker's life: the number of its restarts.
        address: A Unix socket's path, or `host:port`.
    """

    generation: int
    address: str


class Forwarding:
    """The other workers, as one worker knows them, and the connections to them.

    Args:
        secret: The secret that the workers share.
        number: The worker's own number; None for a front.
        generation: The worker's life.
        listener: The socket for the other workers; None for a front.

    Attributes:
        number: The worker's own number.
        listener: The socket for the other workers.
        places: The workers' places; None for one that is starting.
    """

    def __init__(
        self, secret: str, number: int | None = None, generation: int = 0, listener: socket.socket | None = None
    ) -> None:
        self.number = number
        self.listener = listener
        self.places: list[Place | None] = []
        self._secret = secret
        self._generation = generation
        self._clients: dict[str, aiohttp.ClientSession] = {}
        self._room: dict[int, int] = {}
        self._looked_at = 0.0
        self._looking = asyncio.Lock()

    @property
    def prefix(self) -> str:
        """The prefix of the worker's session ids."""
        return "" if self.number is None else worker_prefix(self.number, self._generation)

    @property
    def place(self) -> Place | None:
        """The worker's own place; None for a front."""
        return None if self.listener is None else Place(self._generation, _address(self.listener.getsockname()))

    def update(self, places: Sequence[Place | None]) -> list[aiohttp.ClientSession]:
        """Note the workers' places; return the connections to workers that are gone, for `close_clients`."""
        self.places = list(places)
        addresses = {place.address for place in self.places if place is not None}
        return [self._clients.pop(address) for address in list(self._clients) if address not in addresses]

    async def aclose(self) -> None:
        """Close all connections."""
        await close_clients(self.update([]))

    def is_inner(self, http: web.BaseRequest) -> bool:
        """Whether a request comes from another worker.

        Raises:
            AccessDenied: If the request came to the workers' listener without their secret.
        """
        if self.listener is None or http.transport is None:
            return False
        if http.transport.get_extra_info("sockname") != self.listener.getsockname():
            return False
        if not hmac.compare_digest(
            http.headers.get(_SECRET, "").encode(errors="surrogateescape"), self._secret.encode()
        ):
            raise AccessDenied("This listener answers only the server's own processes.", 401)
        return True

    # -- whose is it -----------------------------------------------------------------------------------------------

    async def elsewhere(self, session_id: str | None, room: int) -> int | None:
        """Return the other worker that should answer a request; None for this one.

        Args:
            session_id: The id of the request's session; None if it has none.
            room: The number of further sessions that this worker can take.
        """
        if session_id is not None:
            worker = worker_of(session_id, len(self.places))
        elif room > 0:
            return None
        else:
            return await self._roomiest()
        return None if worker == self.number else worker

    async def _roomiest(self) -> int | None:
        """Return the other worker with most room; None if all are full (for a front, any worker)."""
        async with self._looking:
            if monotonic() - self._looked_at > _ROOM_SECONDS:
                self._room = {number: int(text or 0) for number, text in (await self.ask_all("/room")).items()}
                self._looked_at = monotonic()
        if not self._room and self.number is None:
            raise AtCapacity("The server's processes are starting: try again in a moment.")
        best = max(self._room, key=self._room.__getitem__, default=None)
        if best is None or (self._room[best] <= 0 and self.number is not None):
            return None
        self._room[best] -= 1
        return best

    async def ask_all(self, path: str) -> dict[int, str]:
        """Return the answers of the other workers to a GET, without those that take too long."""

        async def ask(number: int, place: Place) -> tuple[int, str] | None:
            timeout = aiohttp.ClientTimeout(total=_GATHER_SECONDS)
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                headers = {_SECRET: self._secret}
                async with self._client(place).get(_url(place, path), headers=headers, timeout=timeout) as answer:
                    if answer.status == 200:
                        return number, await answer.text()
            return None

        others = [(n, place) for n, place in enumerate(self.places) if place is not None and n != self.number]
        answers = await asyncio.gather(*(ask(number, place) for number, place in others))
        return dict(answer for answer in answers if answer is not None)

    # -- there it goes ---------------------------------------------------------------------------------------------

    async def forward(self, http: web.Request, worker: int, session_id: str | None) -> web.StreamResponse:
        """Forward a request or a WebSocket to a worker, and return its answer.

        Raises:
            SessionLost: If the session's process has ended.
            UnknownSession: If the worker refuses a WebSocket for the session.
            AtCapacity: If the worker is starting and does not come back in time.
        """
        is_socket = http.headers.get("Upgrade", "").lower() == "websocket"
        body = None if is_socket else await read_body(http)
        deadline = monotonic() + _RESTART_SECONDS
        while True:
            place = await self._place(worker, session_id)
            try:
                if place is not None:
                    return await (self._socket(http, place) if is_socket else self._request(http, place, body))
            except aiohttp.ClientError:
                generation = place.generation if place is not None else -1
                if session_id is not None and session_id.startswith(worker_prefix(worker, generation)):
                    raise SessionLost(LOST) from None
            # What the one that has ended was told is gone with it: it may be told again.
            while worker < len(self.places) and self.places[worker] in (None, place) and monotonic() < deadline:
                await asyncio.sleep(0.05)
            if monotonic() >= deadline:
                raise AtCapacity("The session's process is starting: try again in a moment.")

    async def _place(self, worker: int, session_id: str | None) -> Place | None:
        """Return the place of a worker that may have a session.

        Raises:
            SessionLost: If the id is of an earlier life of the worker.
        """
        until = monotonic() + _NEWS_SECONDS
        while True:
            place = self.places[worker] if worker < len(self.places) else None
            if session_id is None or not session_id.startswith(f"w{worker}g"):
                return place
            if place is not None and session_id.startswith(worker_prefix(worker, place.generation)):
                return place
            if monotonic() > until:  # a worker just started may be known to its clients before it is known here
                raise SessionLost(LOST)
            await asyncio.sleep(0.02)

    async def _request(self, http: web.Request, place: Place, body: bytes | None) -> web.StreamResponse:
        headers = self._headers(http.headers)
        answering = self._client(place).request(
            http.method,
            _url(place, http.rel_url.raw_path_qs),
            headers=headers,
            data=body or None,
            allow_redirects=False,
        )
        async with answering as answer:
            told = CIMultiDict((k, v) for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP)
            if "Content-Length" in answer.headers:
                return web.Response(status=answer.status, headers=told, body=await answer.read())
            stream = web.StreamResponse(status=answer.status, headers=told)
            try:
                await stream.prepare(http)
                async for chunk in answer.content.iter_any():
                    await stream.write(chunk)
                await stream.write_eof()
            except aiohttp.ClientError as error:
                raise ConnectionResetError(str(error)) from None
            return stream

    async def _socket(self, http: web.Request, place: Place) -> web.StreamResponse:
        headers = self._headers(http.headers)
        for name in [name for name in headers if name.lower().startswith("sec-websocket-")]:
            del headers[name]
        protocols = [word.strip() for word in http.headers.get("Sec-WebSocket-Protocol", "").split(",") if word.strip()]
        url = _url(place, http.rel_url.raw_path_qs)
        try:
            there = await self._client(place).ws_connect(
                url, headers=headers, protocols=protocols, autoping=False, max_msg_size=0
            )
        except aiohttp.WSServerHandshakeError as error:
            raise UnknownSession(f"The WebSocket of this session was refused (status {error.status}).") from None
        async with there:
            chosen = (there.protocol,) if there.protocol else ()
            most = limit(REQUEST_BYTES)  # pings go through, so that each end knows whether the other is there
            here = web.WebSocketResponse(protocols=chosen, autoping=False, max_msg_size=most, compress=False)
            try:
                await here.prepare(http)
            except aiohttp.ClientError as error:
                raise ConnectionResetError(str(error)) from None
            back = asyncio.create_task(_pump(there, here))
            try:
                await _pump(here, there)
            finally:
                await asyncio.wait({back}, timeout=_GATHER_SECONDS)
                back.cancel()
            return here

    def _headers(self, headers: Mapping[str, str]) -> CIMultiDict[str]:
        kept = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)
        kept[_SECRET] = self._secret
        return kept

    def _client(self, place: Place) -> aiohttp.ClientSession:
        client = self._clients.get(place.address)
        if client is None:
            connector: aiohttp.BaseConnector
            if place.address.startswith("/"):
                connector = aiohttp.UnixConnector(place.address, limit=0)
            else:
                connector = aiohttp.TCPConnector(limit=0)
            client = self._clients[place.address] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_OWN_DEFAULTS,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_GATHER_SECONDS),
            )
        return client


async def close_clients(clients: Sequence[aiohttp.ClientSession]) -> None:
    """Close the connections that `Forwarding.update` returned."""
    for client in clients:
        await client.close()


async def _pump(
    source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
) -> None:
    """Pass on a WebSocket's messages until it closes, and then its close code. Large ones are counted meanwhile."""
    try:
        async for message in source:
            size = len(message.data) if message.type in (WSMsgType.TEXT, WSMsgType.BINARY) else 0
            if size > SMALL:
                await _forward_large(message, target, size)
            elif message.type is WSMsgType.TEXT:
                await target.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await target.send_bytes(message.data)
            elif message.type is WSMsgType.PING:
                await target.ping(message.data)
            elif message.type is WSMsgType.PONG:
                await target.pong(message.data)
    except ServerBusy:
        await source.close(code=WSCloseCode.TRY_AGAIN_LATER)
    except (ConnectionError, aiohttp.ClientError):
        pass  # one of the two ends is gone
    with suppress(ConnectionError, aiohttp.ClientError):
        await target.close(code=_sendable(source.close_code))


async def _forward_large(
    message: aiohttp.WSMessage, target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse, size: int
) -> None:
    """Send a large message once the process's account has room for it: its sender waits, too."""
    await MEMORY.reserve(size)
    try:
        await (target.send_str if message.type is WSMsgType.TEXT else target.send_bytes)(message.data)
    finally:
        MEMORY.release(size)


def _sendable(code: int | None) -> int:
    if code is not None and (code in range(1000, 1004) or code in range(1007, 1015) or code in range(3000, 5000)):
        return code
    return WSCloseCode.GOING_AWAY


def _address(name: str | tuple[str, int]) -> str:
    return name if isinstance(name, str) else url_of(*name[:2]).removeprefix("http://")


def _url(place: Place, path: str) -> URL:
    host = "inner" if place.address.startswith("/") else place.address
    return URL(f"http://{host}{path}", encoded=True)
