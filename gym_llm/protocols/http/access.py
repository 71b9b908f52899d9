"""What every server here has in common: the port it opens, who may ask it, and from where."""

from __future__ import annotations

import hmac
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import lru_cache
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gym_llm.errors import CallerError, UsageError
from gym_llm.utils.loopback import is_loopback
from gym_llm.utils.secrets import add_secrets, redacted_logger

CLOSING_SECONDS = 5.0
"""How long requests under way have to end when a server is closed."""
_NO_HTTP = (HttpProcessingError, web.RequestPayloadError)
logger = redacted_logger(__name__)
# What is no HTTP is answered with status 400; whoever sends it is not to fill the log, too.
logger.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], _NO_HTTP)))


class Unwelcome(CallerError):
    """A request that is not answered, whatever it asks.

    Args:
        message: Why, for the client.
        status: HTTP's: 401 without the right token, 403 from elsewhere.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Door:
    """Who may ask a server.

    On one of this machine's own addresses (`127.0.0.1`, `::1`, `localhost`) it is asked under a name of this machine
    only, so that no page can reach it by a name that it makes resolve here (DNS rebinding). Any other address needs a
    token. A page of another site, which a browser names as the `Origin`, is never answered.

    Args:
        host: The address to listen on.
        token: What clients send as `Authorization: Bearer TOKEN`, or as `X-API-Key`; None for no check.

    Raises:
        UsageError: If the address is other machines' to reach and there is no token, or the token is no text of ASCII.
    """

    def __init__(self, host: str, token: str | None) -> None:
        if token is not None and not (token.isascii() and token.strip()):
            raise UsageError("A token is a text of ASCII characters, not empty.")
        if token is None and not is_loopback(host):
            raise UsageError(
                f"Listening on {host} lets other machines ask: give a token (on the command line: set the variable "
                "GYM_LLM_TOKEN), or listen on 127.0.0.1."
            )
        if token is not None:
            add_secrets({token})
        self.host = host
        self.token = token
        self._is_loopback = is_loopback(host)

    def check_origin(self, http: web.BaseRequest) -> None:
        """Refuse a request for a name that is not this machine's, or of another site's page.

        Raises:
            Unwelcome: With status 403.
        """
        asked = _name(f"//{http.headers.get('Host', '')}")  # http.host would ask the network for this machine's name
        if self._is_loopback and not is_loopback(asked):
            raise Unwelcome("Only this machine is answered here, under a name of its own such as localhost.", 403)
        if (origin := http.headers.get("Origin")) is None:
            return
        site = _name(origin)
        if site != asked and not (self._is_loopback and is_loopback(site)):
            raise Unwelcome("No page of another site is answered here.", 403)

    def check_token(self, http: web.BaseRequest) -> None:
        """Refuse a request without the token, if there is one; whether the server is well (`GET /health`) all may ask.

        Raises:
            Unwelcome: With status 401.
        """
        if self.token is None or (http.path == "/health" and http.method in ("GET", "HEAD")):
            return
        if not hmac.compare_digest(given_key(http).encode(errors="surrogateescape"), self.token.encode()):
            raise Unwelcome("The token is wrong, or none was sent.", 401)


@lru_cache(maxsize=1024)
def _name(address: str) -> str:
    """The host's name in an address; "" if there is none. Servers are asked for the same few in every request."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def given_key(http: web.BaseRequest) -> str:
    """What a client has sent as its key: after `Authorization: Bearer`, else as `X-API-Key`; "" without."""
    scheme, _, key = http.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return http.headers.get("X-API-Key", "")


def url_of(host: str, port: int) -> str:
    """The address of a server's port, `http://127.0.0.1:8000`."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@asynccontextmanager
async def listening(
    application: web.Application,
    host: str,
    port: int,
    *,
    shared: bool = False,
    also: socket.socket | None = None,
) -> AsyncGenerator[int, None]:
    """Open a port for as long as the context lasts; requests whose client leaves are cancelled.

    Args:
        application: Who answers.
        host: The address.
        port: 0 for any that is free.
        shared: Whether several processes listen on the port, each for a part of the connections (SO_REUSEPORT).
        also: Another socket to listen on, bound already.

    Yields:
        The port.

    Raises:
        UsageError: If it cannot be opened.
    """
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        logger=logger,
        shutdown_timeout=CLOSING_SECONDS,
        auto_decompress=False,  # nobody compresses a request, but for who sends a megabyte that becomes a thousand
    )
    await runner.setup()
    try:
        if also is not None:
            await web.SockSite(runner, also).start()
        try:
            await web.TCPSite(runner, host, port, backlog=4096, reuse_port=shared or None).start()
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(f"Cannot listen on {host}, port {port} ({why}): take another.") from None
        yield runner.addresses[-1][1]
    finally:
        await runner.cleanup()
