"""The child process that serves a hub folder of OpenEnv: `python hub_server.py FOLDER APP SOCKET PORT`.

It runs in the folder's own environment of Python and imports only Python's library, uvicorn and the folder. SOCKET is
the number of an inherited socket, bound to PORT of 127.0.0.1: an ASGI application cannot listen elsewhere. A function
gets the address as the command `server` of such a folder does, or as its parameters `host` and `port`.

Standard input is a pipe from the parent. Where it closes, the parent has ended, and so does this process group.

In a sandbox machine SOCKET listens at a Unix socket, and PORT is the machine's own. The first connection to that socket
takes this process's output, and all others are forwarded to the port. The machine ends this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import signal
import socket
import sys
import threading
from typing import Any

_HOST = "127.0.0.1"


def end_with_parent(pipe: int) -> None:
    """Wait for the end of the parent's pipe, then end this process and those that it started."""
    while os.read(pipe, 1 << 12):
        pass
    os.killpg(0, signal.SIGKILL)


def relayed(entrance: socket.socket, port: int) -> socket.socket:
    """Forward the connections to a Unix socket to a port, and return the socket that is bound to it."""
    output, _ = entrance.accept()
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    threading.Thread(target=asyncio.run, args=[_forward(entrance, port)], daemon=True).start()
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((_HOST, port))
    return bound


async def _forward(entrance: socket.socket, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reader_inside, writer_inside = await asyncio.open_connection(_HOST, port)
        except OSError:  # it does not listen yet
            writer.close()
            return
        await asyncio.gather(_pump(reader, writer_inside), _pump(reader_inside, writer))

    await (await asyncio.start_unix_server(connected, sock=entrance)).serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def application(app: str) -> Any:
    """Import `module:name`."""
    module, _, name = app.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def serve(app: Any, listening: socket.socket, port: int) -> None:
    """Serve until the process is ended."""
    if not inspect.isfunction(app) or inspect.iscoroutinefunction(app):
        import uvicorn

        # a model may think longer than the 20 s that a client may be silent by uvicorn's default
        config = uvicorn.Config(app, log_level="warning", ws_ping_interval=None)
        uvicorn.Server(config).run(sockets=[listening])
        return
    listening.close()
    sys.argv = ["server", "--host", _HOST, "--port", str(port)]
    os.environ.update(HOST=_HOST, PORT=str(port))
    address = {"host": _HOST, "port": port}
    app(**{name: address[name] for name in inspect.signature(app).parameters if name in address})


def main(folder: str, app: str, number: str, port: str) -> None:
    """Serve a folder as its Dockerfile does: from inside, and its name is that of a package if it is one."""
    listening = socket.socket(fileno=int(number))
    if listening.family == socket.AF_UNIX:
        listening = relayed(listening, int(port))
    else:
        threading.Thread(target=end_with_parent, args=[os.dup(0)], daemon=True).start()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the folder's code must not read from the pipe
    os.chdir(folder)
    sys.path[0] = folder
    if os.path.isfile(os.path.join(folder, "__init__.py")):
        sys.path.append(os.path.dirname(folder))
    serve(application(app), listening, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
