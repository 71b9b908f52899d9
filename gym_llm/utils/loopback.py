"""Which hosts are this machine."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether a host's name or address is one of this machine's own, whatever anybody's DNS says.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("localhost.example.com")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
