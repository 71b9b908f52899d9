"""Listener: accepts a server's connections, with limits, so that idle ones never keep others out.

A connection is in one of three states:

1. `waiting`: it has had no request that was let in. It may be half open: connected, and never to send a whole head. It
   has `HEAD_SECONDS` for that. If too many wait, the oldest is closed: an honest client sends its head at once.
2. `idle`: its last request was answered. It becomes `waiting` with the first byte of the next head.
3. Busy: a request or a WebSocket is under way. It is never closed here.

The number of all connections stays below the process's limit of open files. At that number the oldest waiting or idle
connection is closed for a new one; if all are busy, the new one is.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections import OrderedDict
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEAD_SECONDS = 20.0
"""Seconds that a client has to send the head of a request."""
_MOST_WAITING = 1_024
_LEAST_OPEN = 16
_MOST_BEHIND = 256  # connections of one door's key
_AT_ONCE = 64  # connections that are accepted before others have their turn
_PAUSE_SECONDS = 0.05
_BACKLOG = 4_096


class LimitedHandler(RequestHandler):
    """A connection, with its state for the listener; see the module.

    Args:
        listener: It.
        server: aiohttp's server.
        options: Its options for connections.
        key: The only key that its requests may have; None for any.
    """

    __slots__ = ("_is_waiting", "_listener", "is_known", "key")

    def __init__(self, listener: Listener, server: web.Server, options: dict[str, Any], key: str | None = None) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self.key = key
        self._listener = listener
        self._is_waiting = True
        self.is_known = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._listener.admit(self)
        self._listener.wait(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._listener.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a head begins."""
        if self._is_waiting:
            self._is_waiting = False
            self._listener.wait(self)
        super().data_received(data)

    def begin_request(self) -> None:
        """Note that a whole head has come."""
        self._is_waiting = False
        self._listener.begin(self)

    def end_request(self, *, is_known: bool) -> None:
        """Note that the request was answered, and whether it was let in."""
        self.is_known = self.is_known or is_known
        self._is_waiting = True
        self._listener.end(self)


class Listener:
    """Accepts connections for as long as it is open.

    Args:
        server: aiohttp's server, which answers the requests.
        options: Its options for connections.
    """

    def __init__(self, server: web.Server, options: dict[str, Any]) -> None:
        self.addresses: list[Any] = []
        self._server = server
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._doors: dict[socket.socket, str] = {}  # with the key of each
        self._behind: dict[str, set[LimitedHandler]] = {}  # connections by the key of their door
        self._waiting: OrderedDict[LimitedHandler, float] = OrderedDict()  # since when; the oldest is first
        self._idle: OrderedDict[LimitedHandler, None] = OrderedDict()
        self._open = 0
        self._starting: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._most_open = _most_open()
        self._most_waiting = min(_MOST_WAITING, self._most_open // 2)
        # A head that has come with its connection is read before as many others wait that it would be the oldest.
        self._at_once = max(1, min(_AT_ONCE, self._most_waiting // 8))

    async def start(self, host: str, port: int, *, share: bool) -> None:
        """Open the port of an address.

        Args:
            host: The address, or a name of one or several.
            port: 0 for a free one.
            share: Whether other processes listen on the port, too.

        Raises:
            OSError: If the port cannot be opened.
        """
        addresses = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            taken = self.addresses[0][1] if self.addresses and not port else address[1]
            opened = socket.socket(family, kind, protocol)
            self._sockets.append(opened)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if share:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.setblocking(False)
            opened.bind((address[0], taken, *address[2:]))
            opened.listen(_BACKLOG)
            self.addresses.append(opened.getsockname())
        for opened in self._sockets:
            self._loop.add_reader(opened.fileno(), self._accept, opened)
        self._sweep()

    def open_door(self, opened: socket.socket, key: str) -> None:
        """Accept connections from another listening socket, for requests with one key only."""
        opened.setblocking(False)
        self._doors[opened] = key
        self._behind.setdefault(key, set())
        self._loop.add_reader(opened.fileno(), self._accept, opened)

    def close_doors(self, key: str) -> None:
        """Close the doors of a key, and their connections."""
        for opened in [one for one, its in self._doors.items() if its == key]:
            del self._doors[opened]
            self._loop.remove_reader(opened.fileno())
            opened.close()
        for connection in self._behind.pop(key, ()):
            if connection.transport is not None:
                connection.transport.abort()

    def close(self) -> None:
        """Accept no more connections."""
        for key in set(self._doors.values()):
            self.close_doors(key)
        for opened in self._sockets:
            self._loop.remove_reader(opened.fileno())
            opened.close()
        self._sockets = []
        if self._sweeping is not None:
            self._sweeping.cancel()

    def admit(self, connection: LimitedHandler) -> None:
        """Note a new connection; one whose door has been closed meanwhile is closed."""
        if connection.key is None:
            return
        if (behind := self._behind.get(connection.key)) is not None:
            behind.add(connection)
        elif connection.transport is not None:
            connection.transport.abort()

    # -- the states of connections -------------------------------------------------------------------------------------

    def wait(self, connection: LimitedHandler) -> None:
        """Give a connection the time for a head, from now on."""
        self._idle.pop(connection, None)
        if connection in self._waiting:
            return
        self._waiting[connection] = self._loop.time()
        if len(self._waiting) > self._most_waiting:
            _cut(self._waiting)

    def begin(self, connection: LimitedHandler) -> None:
        """Note that a request is under way."""
        self._waiting.pop(connection, None)
        self._idle.pop(connection, None)

    def end(self, connection: LimitedHandler) -> None:
        """Note that a request was answered."""
        if connection.transport is None:
            return
        if connection.is_known:
            self._idle[connection] = None
        else:
            self.wait(connection)

    def forget(self, connection: LimitedHandler) -> None:
        """Note that a connection is closed."""
        self._waiting.pop(connection, None)
        self._idle.pop(connection, None)
        self._open -= 1
        if connection.key is not None:
            self._behind.get(connection.key, set()).discard(connection)

    def _sweep(self) -> None:
        """Close what has waited too long."""
        until = self._loop.time() - HEAD_SECONDS
        while self._waiting and next(iter(self._waiting.values())) <= until:
            _cut(self._waiting)
        self._sweeping = self._loop.call_later(min(1.0, HEAD_SECONDS / 4), self._sweep)

    # -- accepting -----------------------------------------------------------------------------------------------------

    def _accept(self, opened: socket.socket) -> None:
        key = self._doors.get(opened)
        for _ in range(self._at_once if key is None else 1):
            if key is not None and len(self._behind[key]) >= _MOST_BEHIND:
                self._pause(opened)
                return
            if self._open >= self._most_open and (self._waiting or self._idle):
                _cut(self._waiting or self._idle)
                return  # it is closed in the loop's next turn; then the rest is accepted
            try:
                connection, _ = opened.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno == errno.EINVAL and key is not None:  # its machine has closed it
                    self._loop.remove_reader(opened.fileno())
                    return
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                if self._waiting or self._idle:
                    _cut(self._waiting or self._idle)
                self._pause(opened)
                return
            if self._open >= self._most_open:
                connection.close()
                continue
            self._open += 1
            connection.setblocking(False)
            task = self._loop.create_task(self._begin(connection, key))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def _pause(self, opened: socket.socket) -> None:
        self._loop.remove_reader(opened.fileno())

        def go_on() -> None:
            if opened in self._sockets or opened in self._doors:
                self._loop.add_reader(opened.fileno(), self._accept, opened)

        self._loop.call_later(_PAUSE_SECONDS, go_on)

    async def _begin(self, connection: socket.socket, key: str | None) -> None:
        made: list[LimitedHandler] = []

        def make() -> LimitedHandler:
            made.append(LimitedHandler(self, self._server, self._options, key))
            return made[0]

        try:
            await self._loop.connect_accepted_socket(make, connection)
        except OSError:  # it is gone again
            if not made or made[0].transport is None:
                self._open -= 1
                connection.close()


def _cut(connections: OrderedDict[LimitedHandler, Any]) -> None:
    """Close the oldest connection."""
    connection, _ = connections.popitem(last=False)
    if connection.transport is not None:
        connection.transport.abort()


def _most_open() -> int:
    """Return how many connections this process may have: some files are left for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = 32
    return max(_LEAST_OPEN, soft - used - max(48, soft // 8))
