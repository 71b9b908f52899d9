"""The child process that serves a hub folder of OpenEnv: `python hub_server.py FOLDER APP SOCKET PORT`.

It runs in the folder's own environment of Python and imports only Python's library, uvicorn and the folder. SOCKET is
the number of an inherited socket, bound to PORT of 127.0.0.1: an ASGI application cannot listen elsewhere. A function
gets the address as the command `server` of such a folder does, or as its parameters `host` and `port`.

Standard input is a pipe from the parent. Where it closes, the parent has ended, and so does this process group.
"""

from __future__ import annotations

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
    threading.Thread(target=end_with_parent, args=[os.dup(0)], daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the folder's code must not read from the pipe
    os.chdir(folder)
    sys.path[0] = folder
    if os.path.isfile(os.path.join(folder, "__init__.py")):
        sys.path.append(os.path.dirname(folder))
    serve(application(app), socket.socket(fileno=int(number)), int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
