"""Holding tens of thousands of connections from one process."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import Any

_IP_LOCAL_PORT_RANGE = 51  # linux/in.h; Python has no name for it before 3.14
_WHOLE_RANGE = (65_535 << 16 | 1).to_bytes(4, sys.byteorder)
_ENOUGH_FILES = 65_536


def new_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket for `address` (family, type, protocol, …) that finds a free local port quickly.

    Linux first searches one half of the ephemeral ports, by parity. Past 14,000 connections to one server, each
    `connect` searched all of it (measured: 0.8 ms instead of 0.02). From Linux 6.3 on, a socket can have its own port
    range, and then searches without that preference.
    """
    new = socket.socket(*address[:3])
    if sys.platform == "linux":
        with suppress(OSError):  # older kernels do not know the option
            new.setsockopt(socket.IPPROTO_IP, _IP_LOCAL_PORT_RANGE, _WHOLE_RANGE)
    return new


def raise_open_files_limit() -> None:
    """Let this process hold a socket for each request in flight: the usual soft limit is 1,024, the hard one higher."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with suppress(ValueError, OSError):  # macOS refuses more than its kernel allows
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
