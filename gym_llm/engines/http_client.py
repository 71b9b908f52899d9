"""The HTTP engine's client: an aiohttp session, and posts for a third of the processor time of `session.post`.

`session.post` makes headers, a request, a timer, a task and a response for each call. Here the head is made once, and
head and body are sent together. Connections, their pool, TLS and the parser of replies are aiohttp's. Redirects,
cookies, proxies, traces and the session's `total` timeout are left out: the engine uses none of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from gym_llm.engines.around import conversation_of
from gym_llm.engines.sockets import new_socket

CONNECT_SECONDS = 30.0
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
KEEP_ALIVE_SECONDS = 4.0
"""Below the 5 s after which uvicorn (so vLLM, SGLang) closes an idle connection: else requests run into the closing."""


def open_session(headers: Mapping[str, str]) -> aiohttp.ClientSession:
    """Return a session without a limit on connections, which sends these headers."""
    connector = aiohttp.TCPConnector(
        limit=0, ttl_dns_cache=300, keepalive_timeout=KEEP_ALIVE_SECONDS, socket_factory=new_socket
    )
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    jar = aiohttp.DummyCookieJar()
    return aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=jar, timeout=timeout)


def check_header_name(name: str | None) -> None:
    """Raise a ValueError if this is neither the name of a header nor None; ours and the transport's are taken."""
    taken = ("host", "authorization", "content-length", "content-type", "transfer-encoding", "connection")
    if name is not None and (
        not isinstance(name, str) or not _HEADER_NAME.fullmatch(name) or name.strip().lower() in taken
    ):
        raise ValueError(f"session_header is the name of a header such as X-Session-ID, or None; got {name!r:.60}.")


def session_field(name: str | None, episode_id: str) -> bytes:
    r"""Return the header line with an episode's id; nothing without a name or an id.

    >>> session_field("X-Session-ID", "3-0/Blue\r\nTeam")
    b'X-Session-ID: 3-0\r\n'
    """
    if name is None or not episode_id:
        return b""
    episode_id = conversation_of(episode_id)
    if not (episode_id.isascii() and episode_id.isprintable()):
        episode_id = quote(episode_id)
    return f"{name}: {episode_id}\r\n".encode()


class Endpoint:
    """A URL that bodies are posted to. `async with endpoint.post(body) as reply` is as with `aiohttp.ClientSession`.

    Args:
        session: Open, of the running event loop. Its headers are sent.
        url: An http or https URL.
    """

    def __init__(self, session: aiohttp.ClientSession, url: URL) -> None:
        assert session.connector is not None
        self.connector, self.timeout = session.connector, session.timeout
        loop = asyncio.get_running_loop()
        self.request = aiohttp.ClientRequest("POST", url, headers=session.headers, loop=loop, session=session)
        fields = [f"{name}: {value}" for name, value in self.request.headers.items() if name != "Content-Length"]
        self.head = "\r\n".join([f"POST {url.raw_path_qs} HTTP/1.1", *fields, "Content-Length: "]).encode()

    def post(self, body: bytes, fields: bytes = b"") -> Reply:
        r"""Return the reply to a body, to be opened with `async with`.

        Args:
            body: The request's body.
            fields: Further header lines, each with its `\r\n`.
        """
        return Reply(self, body, fields)


class Reply:
    """A server's reply, whose body is read from `content`; leaving it keeps the connection if all of it was read.

    Raises:
        aiohttp.ClientError: If the connection fails, or the reply is not HTTP.
        OSError: If connecting takes too long.
    """

    __slots__ = ("_body", "_connection", "_endpoint", "_fields", "content", "headers", "reason", "status")

    content: aiohttp.StreamReader
    headers: Any
    reason: str
    status: int

    def __init__(self, endpoint: Endpoint, body: bytes, fields: bytes = b"") -> None:
        self._endpoint, self._body, self._fields = endpoint, body, fields

    @property
    def url(self) -> URL:
        """The URL that was posted to."""
        return self._endpoint.request.url

    async def __aenter__(self) -> Reply:
        """Send the request, and wait for the reply's head."""
        endpoint, body = self._endpoint, self._body
        self._connection = connection = await endpoint.connector.connect(endpoint.request, [], endpoint.timeout)
        try:
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None:  # lost before this task could go on
                raise aiohttp.ClientConnectionResetError("The connection was lost.")
            protocol.set_response_params(read_until_eof=True)
            transport.write(b"%b%d\r\n%b\r\n%b" % (endpoint.head, len(body), self._fields, body))
            message, self.content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:  # an interim reply
                message, self.content = await protocol.read()
        except HttpProcessingError as error:
            connection.close()
            info, code = endpoint.request.request_info, error.code
            raise aiohttp.ClientResponseError(info, (), status=code, message=error.message) from error
        except BaseException:
            connection.close()
            raise
        self.status, self.reason, self.headers = message.code, message.reason, message.headers
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Return the connection to the pool if the body has been read, else close it."""
        if error is None and self.content.at_eof():
            self._connection.release()
        else:
            self._connection.close()

    def close(self) -> None:
        """Close the connection: the rest of the body is not wanted."""
        self._connection.close()
