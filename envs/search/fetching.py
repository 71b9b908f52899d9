"""Fetching a page for a model: only from the public internet, and only a limited part of it.

A model may name any URL. So the address is checked at the connection, after every redirect: a second look-up of a name
may give another address.
"""

from __future__ import annotations

import html
import ipaddress
import re
import socket
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import ThreadedResolver

from gym_llm.concurrency.processes import shared_pool
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.protocols.http.answers import AnswerTooLong, read_bounded

_MOST_BYTES = 1_000_000
_MOST_CHARACTERS = 2_000
MOST_REDIRECTS = 5
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_HEADERS = {"User-Agent": "gym-llm", "Accept": "text/html, text/plain;q=0.9"}
_TAG = re.compile(r"<([/!?]?)([a-zA-Z][a-zA-Z0-9]{0,20}|(?<=[/!?]))")
_HIDDEN = {"script", "style", "noscript", "template", "svg"}
_BLOCKS = {
    "p",
    "div",
    "br",
    "li",
    "tr",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "title",
    "section",
    "article",
    "pre",
    "table",
}


class BadURL(Exception):
    """A page must not be, or cannot be fetched; the message is for the model."""


class PublicResolver(AbstractResolver):
    """Looks names up, and leaves out addresses that are not public."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[Any]:
        """The public addresses of a name."""
        found = await self._resolver.resolve(host, port, family)
        public = [address for address in found if is_public(address["host"])]
        if not public:
            raise BadURL("This address is not on the public internet.")
        return public

    async def close(self) -> None:
        """Nothing is open."""
        await self._resolver.close()


def is_public(host: str) -> bool:
    """Whether an IP address is on the public internet.

    >>> is_public("127.0.0.1"), is_public("::ffff:10.0.0.1"), is_public("169.254.169.254"), is_public("8.8.8.8")
    (False, False, False, True)
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    return (inner or address).is_global and not address.is_multicast


def check_url(url: str, *, allow_private: bool = False) -> None:
    """Refuse a URL that is not of the public web.

    Raises:
        BadURL: If its scheme is not http or https, it has no host or a password, or the host is an address that is not
            public.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadURL("This is not a URL.") from None
    if len(url) > _MOST_CHARACTERS or parts.scheme not in ("http", "https") or not host:
        raise BadURL("Only http:// and https:// URLs can be opened.")
    if parts.username is not None:
        raise BadURL("A URL with a name or a password in it is not opened.")
    try:
        public = allow_private or is_public(host)
    except ValueError:
        return  # a name: its addresses are looked at when it is connected to
    if not public:
        raise BadURL("This address is not on the public internet.")


async def fetch_page(url: str, *, allow_private: bool = False) -> str | None:
    """The text of a page; None if it has none.

    Args:
        url: What the model wrote.
        allow_private: Whether addresses that are not public may be connected to.

    Raises:
        BadURL: If it must not be, or cannot be fetched.
    """
    connector = aiohttp.TCPConnector(resolver=None if allow_private else PublicResolver())
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, headers=_HEADERS) as session:
        try:
            for _ in range(MOST_REDIRECTS + 1):
                check_url(url, allow_private=allow_private)
                async with session.get(url, allow_redirects=False) as response:
                    if response.status in (301, 302, 303, 307, 308) and "Location" in response.headers:
                        url = urljoin(url, response.headers["Location"])
                        continue
                    return await _read(response)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise BadURL(f"The page could not be fetched: {type(error).__name__}.") from None
    raise BadURL("The page leads to too many others.")


async def _read(response: aiohttp.ClientResponse) -> str | None:
    if response.status != 200:
        raise BadURL(f"The page could not be fetched: status {response.status}.")
    if not response.content_type.startswith(("text/", "application/xhtml")):
        raise BadURL(f"The page is not text, but {response.content_type[:100]}.")
    body = await bounded(response, _MOST_BYTES, cut=True)
    try:
        text = body.decode(response.charset or "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    if "html" in response.content_type:
        try:
            text = await shared_pool("gym_llm.envs.search.fetching:text_of", deadline=5.0).call(text)
        except (DeadlinePassed, WorkerDied):
            return None
    return text.strip() or None


async def bounded(response: aiohttp.ClientResponse, most: int, *, cut: bool = False) -> bytes:
    """Return a response's body, up to a number of bytes.

    Raises:
        BadURL: If it is larger and may not be cut.
    """
    try:
        return await read_bounded(response.content, most, cut=cut)
    except AnswerTooLong:
        raise BadURL("The answer is too long.") from None


def text_of(page: str) -> str:
    r"""Return the visible text of an HTML page, a line for each block.

    >>> text_of("<title>A</title><p>One <b>two</b></p><script>3</script><p>four")
    'A\nOne two\nfour'
    """
    pieces: list[str] = []
    lower, position = page.lower() if page.isascii() else page, 0
    while (start := page.find("<", position)) >= 0:
        pieces.append(page[position:start])
        comment, tag = page.startswith("<!--", start), _TAG.match(page, start)
        if not comment and tag is None:
            pieces.append("<")
            position = start + 1
            continue
        end = page.find("-->" if comment else ">", start)
        if end < 0:  # cut off
            break
        position = end + (3 if comment else 1)
        name = tag[2].lower() if tag is not None else ""
        if name in _BLOCKS:
            pieces.append("\n")
        elif name in _HIDDEN and tag is not None and not tag[1]:
            position = lower.find(f"</{name}", position)
            if position < 0:
                break
    else:
        pieces.append(page[position:])
    text = html.unescape("".join(pieces))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(filter(None, lines))
