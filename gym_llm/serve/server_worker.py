"""A worker of a server of several processes: its order, and the server that it runs."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gym_llm.serve.env_server import EnvServer
from gym_llm.serve.forwarding import Forwarding, Place

END_SECONDS = 45.0
"""Seconds that a worker has to end its sessions: a little more than a `teardown` may take."""
_BACKLOG = 4096


class Worker(Protocol):
    """A worker as the server sees it.

    Attributes:
        place: Where the other workers reach it.
    """

    place: Place

    async def serve(self, places: Sequence[Place | None]) -> None:
        """Make the worker begin, with the places of all workers."""

    async def update(self, places: Sequence[Place | None]) -> None:
        """Send the worker the places of all workers."""

    async def wait(self) -> str:
        """Wait until the worker has ended; return how it ended."""

    async def end(self) -> None:
        """End the worker and its sessions."""


@dataclass(frozen=True)
class WorkerOrder:
    """The order of a worker.

    Attributes:
        number: The worker's number.
        generation: Its life, from 0.
        secret: The secret that the server's processes share.
        options: The arguments of `EnvServer`.
        folder: The folder of its Unix socket; None if the other workers reach it over TCP.
    """

    number: int
    generation: int
    secret: str
    options: dict[str, Any]
    folder: str | None = None

    def server(self, host: str = "") -> tuple[EnvServer, Forwarding]:
        """Return the worker's server, and what it knows of the other workers.

        Args:
            host: The address for the other workers, if there is no folder. Then the server's own port is on loopback
                and asks for the secret, and the front answers the clients.
        """
        forwarding = Forwarding(self.secret, self.number, self.generation, self._listener(host))
        own = {"host": "127.0.0.1", "port": 0, "token": self.secret} if self.folder is None else {}
        return EnvServer(**{**self.options, **own}, forwarding=forwarding), forwarding

    def clean_up(self) -> None:
        """Remove the worker's Unix socket, and the folder after the last one: a killed parent does not."""
        if self.folder is not None:
            with suppress(OSError):
                self._socket(self.folder).unlink(missing_ok=True)
                Path(self.folder).rmdir()

    def _listener(self, host: str) -> socket.socket:
        if self.folder is None:
            return socket.create_server((host, 0), backlog=_BACKLOG)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._socket(self.folder)))
        listener.listen(_BACKLOG)
        return listener

    def _socket(self, folder: str) -> Path:
        return Path(folder) / f"w{self.number}g{self.generation}.sock"
