"""HttpServer: the base of every HTTP server here, with one life cycle, access check, error form and set of metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gym_llm.errors import CallerError, UsageError
from gym_llm.protocols.http.access import AccessControl, AccessDenied
from gym_llm.protocols.http.bodies import BodyRefused, release_body
from gym_llm.protocols.http.listener import LimitedHandler, Listener
from gym_llm.protocols.http.metrics import Metric, Metrics
from gym_llm.protocols.http.server_memory import ServerBusy
from gym_llm.records.failures import reason
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.limits import REQUEST_BYTES, limit
from gym_llm.utils.secrets import redacted_logger

CLOSING_SECONDS = 5.0
"""Seconds that requests under way have to end when a server closes."""
JSON = "application/json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NOT_HTTP = (HttpProcessingError, web.RequestPayloadError)
logger = redacted_logger(__name__)
# A malformed request is answered with status 400; its sender must not be able to fill the log, too.
logger.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], _NOT_HTTP)))


class HttpServer:
    """A server of one port, as an async context manager of one event loop.

    Subclasses override `_add_routes`. They may override `_start` and `_stop` for tasks beside the port, `_authorize`
    for access, `_error_response` for the format of errors, and `_figures` for metrics.

    Args:
        host: The address to listen on; one that other machines can reach needs a token.
        port: 0 for a free one.
        token: What clients send as `Authorization: Bearer TOKEN` or `X-API-Key`; None for no check.
        inner: Another bound socket to listen on: then the port is shared with other processes.

    Attributes:
        host: The address.
        port: The port; the one that was opened, once the server runs.

    Raises:
        UsageError: If the address needs a token. On entering, if the port cannot be opened.
    """

    closing_seconds = CLOSING_SECONDS

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None, inner: socket.socket | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._access = AccessControl(host, token)
        self._metrics = Metrics(self._figures)
        self._inner = inner
        self._listener: Listener
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The address, `http://127.0.0.1:8000`, while the server runs."""
        return url_of(self.host, self.port)

    async def __aenter__(self) -> Self:
        """Start the server and open its port."""
        async with AsyncExitStack() as stack:
            await self._start(stack)
            port = accepting(self.application(), self.host, self.port, inner=self._inner, seconds=self.closing_seconds)
            self._listener = await stack.enter_async_context(port)
            self.port = self._listener.addresses[-1][1]
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the port, wait a few seconds for requests under way, and end what ran beside it."""
        await self._stack.aclose()

    def open_door(self, opened: socket.socket, key: str) -> None:
        """Serve another listening socket, for requests with one key only: that of a machine's agent.

        Args:
            opened: The socket, which is closed with the door.
            key: The key, in the path (`/s/KEY/...`) or a header.
        """
        self._listener.open_door(opened, key)

    def close_doors(self, key: str) -> None:
        """Close what `open_door` opened for a key, and its connections."""
        self._listener.close_doors(key)

    def application(self) -> web.Application:
        """Return the routes as an aiohttp application."""
        middlewares: Any = [self._metrics.count, self._guard]
        application = web.Application(client_max_size=self._most_bytes(), middlewares=middlewares)

        async def stop(_: web.Application) -> None:
            await self._stop()

        application.on_shutdown.append(stop)
        self._add_routes(application)
        return application

    # -- for subclasses ----------------------------------------------------------------------------------------------

    def _add_routes(self, application: web.Application) -> None:
        raise NotImplementedError

    async def _start(self, stack: AsyncExitStack) -> None:
        """Start what the server needs before its port opens; the stack closes it after the port."""

    async def _stop(self) -> None:
        """End what would keep requests under way: the port is about to close."""

    def _authorize(self, http: web.Request) -> None:
        self._access.check_origin(http)
        self._access.check_token(http)

    def _error_response(self, http: web.Request, error: Exception) -> web.Response:
        status, message = http_problem(http, error) or (500, reason(error))
        if status == 500:
            logger.error("A request failed.", exc_info=error)
        return json_response({"error": message}, status)

    def _figures(self) -> Iterable[Metric]:
        return ()

    def _most_bytes(self) -> int:
        return limit(REQUEST_BYTES)

    @web.middleware
    async def _guard(self, http: web.Request, handler: Handler) -> web.StreamResponse:
        connection = http.protocol
        if isinstance(connection, LimitedHandler):
            connection.begin_request()
            try:
                answer = await self._answered(http, handler)
            except BaseException:
                connection.end_request(is_known=False)
                raise
            connection.end_request(is_known=answer.status < 400 and http.path not in self._access.open_paths)
            return answer
        return await self._answered(http, handler)

    async def _answered(self, http: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if isinstance(http.protocol, LimitedHandler) and http.protocol.key is not None:
                self._access.check_key(http, http.match_info.get("key"), http.protocol.key)
            self._authorize(http)
            return await handler(http)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            if isinstance(error, web.HTTPException) and error.status < 400:
                raise
            return self._error_response(http, error)
        finally:
            release_body(http)


def http_problem(http: web.Request, error: BaseException) -> tuple[int, str] | None:
    """Return the status and message of an error that is the client's; None for any other."""
    match error:
        case AccessDenied() | BodyRefused():
            return error.status, str(error)
        case ServerBusy():
            return 503, str(error)
        case web.HTTPRequestEntityTooLarge():
            return 413, f"A request has at most {limit(REQUEST_BYTES):,} bytes ({REQUEST_BYTES})."
        case web.RequestPayloadError():
            return 400, "The body does not match its headers: its encoding, or its length."
        case web.HTTPException():
            return error.status, f"{http.method} {http.path} is not served here ({error.reason})."
        case CallerError():
            return 400, str(error)
    return None


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return an answer of JSON."""
    return web.Response(body=dumps(body), status=status, headers=headers, content_type=JSON)


def url_of(host: str, port: int) -> str:
    """Return the address of a server's port, `http://127.0.0.1:8000`."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@asynccontextmanager
async def accepting(
    application: web.Application,
    host: str,
    port: int,
    *,
    inner: socket.socket | None = None,
    seconds: float = CLOSING_SECONDS,
) -> AsyncGenerator[Listener, None]:
    """Open a port for as long as the context lasts; requests whose client leaves are cancelled.

    Args:
        application: Answers the requests.
        host: The address.
        port: 0 for a free one.
        inner: Another bound socket to listen on. Several processes may then share the port (SO_REUSEPORT).
        seconds: How long requests under way have to end.

    Yields:
        What accepts the connections.

    Raises:
        UsageError: If it cannot be opened.
    """
    # Clients do not compress requests; an attacker's megabyte would become a gigabyte.
    options: dict[str, Any] = {"access_log": None, "logger": logger, "auto_decompress": False}
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=seconds, **options)
    await runner.setup()
    assert runner.server is not None
    listener = Listener(runner.server, options)
    try:
        if inner is not None:
            await web.SockSite(runner, inner).start()
        try:
            await listener.start(host, port, share=inner is not None)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(f"Cannot listen on {host}, port {port} ({why}): choose another port.") from None
        yield listener
    finally:
        listener.close()
        await runner.cleanup()


@asynccontextmanager
async def listening(application: web.Application, host: str, port: int, **options: Any) -> AsyncGenerator[int, None]:
    """Open a port for as long as the context lasts; its arguments are those of `accepting`.

    Yields:
        The port.

    Raises:
        UsageError: If it cannot be opened.
    """
    async with accepting(application, host, port, **options) as listener:
        yield listener.addresses[-1][1]
