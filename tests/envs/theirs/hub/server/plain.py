"""A server that speaks the same protocol without OpenEnv's package; MODE says how it fails."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from aiohttp import web
from game import Higher

MODE = os.environ.get("MODE", "good")
SCHEMA = {"title": "Guess", "properties": {"guess": {"type": "integer"}}, "required": ["guess"]}


async def health(_: web.Request) -> web.Response:
    """Say that the server is ready; or not, or nothing at all, or without an end."""
    if MODE == "silent":
        await asyncio.sleep(3600)
    if MODE == "floods":
        return web.Response(body=b"[" * (1 << 25))
    return web.json_response({"status": "starting" if MODE == "starts" else "healthy"})


async def metadata(_: web.Request) -> web.Response:
    """Describe the server by the number of its process."""
    return web.json_response({"name": "higher", "description": str(os.getpid())})


async def schema(_: web.Request) -> web.Response:
    """Return the schema of an action."""
    return web.json_response({"action": SCHEMA})


async def play(request: web.Request) -> web.WebSocketResponse:
    """Play an episode."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    game = Higher(0)
    async for frame in socket:
        sent: Any = frame.json()
        message, reward, done = "Begin", None, False
        if sent["type"] == "reset":
            game = Higher(sent["data"]["seed"])
        elif MODE == "dies":
            os._exit(7)
        else:
            message, reward, done = game.guess(sent["data"]["guess"])
        data = {"observation": {"message": message}, "reward": reward, "done": done}
        await socket.send_json({"type": "observation", "data": data})
    return socket


def main() -> None:
    """Serve at the address that the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    if MODE == "exits":
        sys.exit(f"No licence for {os.environ['API_KEY']}.\n\x1b[0m\n")
    if MODE == "hangs":
        time.sleep(3600)
    if MODE == "writes":
        print("x" * (1 << 20), flush=True)
    if MODE == "parent":
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        Path(os.environ["PIDS"]).write_text(str(helper.pid))
    app = web.Application()
    app.add_routes([web.get("/health", health), web.get("/metadata", metadata)])
    app.add_routes([web.get("/schema", schema), web.get("/ws", play)])
    web.run_app(app, host=options.host, port=0 if MODE == "elsewhere" else options.port, print=None)
