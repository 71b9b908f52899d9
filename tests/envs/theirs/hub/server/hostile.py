"""A hostile server: the plain one, which says what it could do outside, and starts a fork bomb at a guess."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from server import plain


def attempts() -> dict[str, Callable[[], Any]]:
    """Return what it tries; OUTSIDE is a folder, OUTSIDE_PORT a port, and PID a process, all outside."""
    folder, port = Path(os.environ["OUTSIDE"]), int(os.environ["OUTSIDE_PORT"])
    return {
        "read": (folder / "kept").read_text,
        "write to memory": lambda: (folder / "new").write_text("x"),
        "change its folder": lambda: Path(__file__).write_text("x"),
        "change its packages": lambda: Path(web.__file__).write_text("x"),
        "call this machine": lambda: socket.create_connection(("127.0.0.1", port), 5),
        "call another": lambda: socket.create_connection(("192.0.2.1", 80), 5),
        "call from its own socket": lambda: socket.socket(fileno=os.dup(3)).connect("\0outside"),
        "kill": lambda: os.kill(int(os.environ["PID"]), signal.SIGKILL),
    }


async def metadata(_: web.Request) -> web.Response:
    """Return what it could do."""
    done = []
    for name, attempt in attempts().items():
        try:
            attempt()
            done.append(name)
        except OSError:
            pass
    return web.json_response({"description": json.dumps([done, sorted(os.environ)])})


def bomb(*_: Any) -> Any:
    """Start processes that start processes."""
    while True:
        try:
            os.fork()
        except OSError:
            pass


def main() -> None:
    """Serve."""
    plain.metadata = metadata
    plain.Higher.guess = bomb  # type: ignore[method-assign]
    plain.main()
