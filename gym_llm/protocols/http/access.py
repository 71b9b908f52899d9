"""AccessControl: which requests a server answers, by origin and token."""

from __future__ import annotations

import hmac
import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from aiohttp import web

from gym_llm.errors import CallerError, UsageError
from gym_llm.utils.secrets import add_secrets

_OF_ALL_SESSIONS = frozenset({"metrics", "health", "sessions"})


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether a host's name or address is of this machine; DNS is not asked.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("localhost.example.com")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AccessDenied(CallerError):
    """Raised for a request that may not be answered.

    Args:
        message: The reason, for the client.
        status: The HTTP status: 401 without the right token, 403 for a wrong host or origin.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class AccessControl:
    """The access check of a server.

    A loopback address (`127.0.0.1`, `::1`, `localhost`) is answered only under a loopback name, which stops DNS
    rebinding. Any other address needs a token. Requests with the `Origin` of another site are refused.

    Args:
        host: The address to listen on.
        token: What clients send as `Authorization: Bearer TOKEN` or `X-API-Key`; None for no check.

    Raises:
        UsageError: If other machines can reach the address and the token is missing, or the token is not ASCII.
    """

    def __init__(self, host: str, token: str | None) -> None:
        if token is not None and not (token.isascii() and token.strip()):
            raise UsageError("The token is empty or has characters that are not ASCII.")
        if token is None and not is_loopback(host):
            raise UsageError(
                f"Other machines can reach {host}: give a token (command line: GYM_LLM_TOKEN), or listen on 127.0.0.1."
            )
        if token is not None:
            add_secrets({token})
        self.host = host
        self.token = token
        self.open_paths = {"/health"}
        self._is_loopback = is_loopback(host)

    def check_origin(self, http: web.BaseRequest) -> None:
        """Refuse a request for another host's name, or from another site's page.

        Raises:
            AccessDenied: With status 403.
        """
        asked = _name(f"//{http.headers.get('Host', '')}")  # http.host would ask the network for this machine's name
        if self._is_loopback and not is_loopback(asked):
            raise AccessDenied("This server answers only this machine, under a loopback name such as localhost.", 403)
        if (origin := http.headers.get("Origin")) is None:
            # Browsers send no Origin with pictures, scripts and links. A link shows its answer to the user only.
            is_link = http.method == "GET" and http.headers.get("Sec-Fetch-Dest") == "document"
            if http.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not is_link:
                raise AccessDenied("This server does not answer pages of other sites.", 403)
            return
        site = _name(origin)
        if site != asked and not (self._is_loopback and is_loopback(site)):
            raise AccessDenied("This server does not answer pages of other sites.", 403)

    def check_token(self, http: web.BaseRequest) -> None:
        """Refuse a request without the token, if there is one. A GET of one of `open_paths` needs no token.

        Raises:
            AccessDenied: With status 401.
        """
        if self.token is None or (http.path in self.open_paths and http.method in ("GET", "HEAD")):
            return
        if not hmac.compare_digest(given_key(http).encode(errors="surrogateescape"), self.token.encode()):
            raise AccessDenied("The token is wrong or missing.", 401)

    def check_key(self, http: web.BaseRequest, named: str | None, key: str) -> None:
        """Refuse a request whose key, in its path or else a header, is not this one, or that is about all sessions.

        Raises:
            AccessDenied: With status 401 or 403.
        """
        given = given_key(http) if named is None else named
        if not hmac.compare_digest(given.encode(errors="surrogateescape"), key.encode()):
            raise AccessDenied("The key is not that of this machine's episode.", 401)
        if http.path.split("/")[1] in _OF_ALL_SESSIONS:
            raise AccessDenied("A machine's agent may ask for its own episode only.", 403)


@lru_cache(maxsize=1024)
def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def given_key(http: web.BaseRequest) -> str:
    """Return the key that a client sent with `Authorization: Bearer` or `X-API-Key`; "" without one."""
    scheme, _, key = http.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return http.headers.get("X-API-Key", "")
