"""One of the processes that serve environments on one port: what it is told, and what it does.

`ProcessWorker` starts it with the number of a socket on which it and its parent exchange pickled messages,
each after its length. It is told the order; says where the others reach it, or why it cannot begin; is told where all
are, opens the port, says so; and is told whenever another has moved. When the socket closes it ends its sessions and
itself: the parent has closed it, or has died.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LENGTH = struct.Struct("!I")
_END_SECONDS = 60.0
_BACKLOG = 4096


@dataclass(frozen=True)
class WorkerOrder:
    """What a worker is to do.

    Attributes:
        number: Which worker it is.
        generation: Its life, from 0.
        secret: What the server's processes know, and nobody else.
        options: The arguments of `EnvServer`.
        folder: Where its Unix socket lies; None where it is asked over TCP.
    """

    number: int
    generation: int
    secret: str
    options: dict[str, Any]
    folder: str | None = None

    def listener(self, host: str = "") -> socket.socket:
        """A new socket on which the others may ask the worker, on this host where there is no folder."""
        if self.folder is None:
            listener = socket.create_server((host, 0), backlog=_BACKLOG)
        else:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(self._socket(self.folder)))
            listener.listen(_BACKLOG)
        return listener

    def clean_up(self) -> None:
        """Remove its Unix socket, and the folder after the last: a parent that was killed does not."""
        if self.folder is not None:
            with suppress(OSError):
                self._socket(self.folder).unlink(missing_ok=True)
                Path(self.folder).rmdir()

    def _socket(self, folder: str) -> Path:
        return Path(folder) / f"w{self.number}g{self.generation}.sock"


def packed(message: Any) -> bytes:
    """A message as it is sent."""
    payload = pickle.dumps(message)
    return _LENGTH.pack(len(payload)) + payload


def packed_length(head: bytes) -> int:
    """How long a message is, by the 4 bytes before it."""
    length: int = _LENGTH.unpack(head)[0]
    return length


class _Parent:
    """The parent's end of the socket.

    Attributes:
        is_gone: Whether it has closed its end, or has died.
    """

    def __init__(self, descriptor: int) -> None:
        self.is_gone = False
        self._socket = socket.socket(fileno=descriptor)
        self._file = self._socket.makefile("rb")

    def send(self, message: Any) -> None:
        try:
            self._socket.sendall(packed(message))
        except OSError:  # it has died, which `receive` says, too
            pass

    def receive(self) -> Any:
        """The next message; None when there are no more."""
        payload = b""
        with suppress(OSError):
            head = self._file.read(_LENGTH.size)
            payload = self._file.read(packed_length(head)) if len(head) == _LENGTH.size else b""
        self.is_gone = not payload
        return pickle.loads(payload) if payload else None


async def _serve(parent: _Parent, order: WorkerOrder) -> None:
    from gym_llm.concurrency.relaxed_gc import freeze_gc
    from gym_llm.records.failures import reason
    from gym_llm.serve.env_server import EnvServer
    from gym_llm.serve.forwarding import Forwarding, close_clients

    loop, news = asyncio.get_running_loop(), asyncio.Queue[Any]()

    def listen() -> None:
        while (message := parent.receive()) is not None:
            loop.call_soon_threadsafe(news.put_nowait, message)
        # The loop may be held by an environment: then the process ends without it.
        threading.Timer(_END_SECONDS, os._exit, (1,)).start()
        loop.call_soon_threadsafe(news.put_nowait, None)

    threading.Thread(target=listen, daemon=True).start()
    loop.add_signal_handler(signal.SIGTERM, news.put_nowait, None)
    try:
        forwarding = Forwarding(order.secret, order.number, order.generation, order.listener())
        server = EnvServer(**order.options, forwarding=forwarding)
        parent.send(forwarding.place)
        if (places := await news.get()) is None:
            return
        forwarding.update(places)
        await server.__aenter__()
    except Exception as error:
        parent.send(reason(error))
        return
    freeze_gc()
    parent.send(None)
    try:
        while (places := await news.get()) is not None:
            await close_clients(forwarding.update(places))
    finally:
        await server.__aexit__(None, None, None)
        await forwarding.aclose()


def main(descriptor: str) -> None:
    """Serve until the parent wants no more."""
    from gym_llm.concurrency.relaxed_gc import relax_gc
    from gym_llm.records.failures import reason
    from gym_llm.serve.event_loop import loop_factory
    from gym_llm.utils.secrets import redact_streams

    parent = _Parent(int(descriptor))
    redact_streams()
    relax_gc()
    sys.path[:] = parent.receive() or []
    try:
        order = parent.receive()
    except Exception as error:  # what it is made of cannot be imported here
        parent.send(reason(error))
        return
    if order is not None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(parent, order))
        if parent.is_gone:  # else another worker follows, in the same folder
            order.clean_up()
    os._exit(0)  # not waiting for threads that hang
