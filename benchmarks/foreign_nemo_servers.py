"""Serves resources servers of NeMo Gym 0.4.0 on one port, each at its name, for `gym-llm env replay`.

It runs where `nemo-gym` is installed, without Ray and without its head server:

    python foreign_nemo_servers.py 8765 mcqa ruler workplace_assistant
    NEMO_GYM_URL=http://127.0.0.1:8765 gym-llm env replay nemo_gym.jsonl

A server whose own requirements are missing is left out, with the reason.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any
from unittest.mock import MagicMock

import uvicorn
from fastapi import FastAPI
from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.server_utils import ServerClient


def made(name: str) -> Any:
    """Return a resources server's own application; it asks no other server."""
    module = importlib.import_module(f"resources_servers.{name}.app")
    own: list[Any] = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, SimpleResourcesServer) and kind.__module__ == module.__name__
    ]
    config = own[-1].model_fields["config"].annotation(host="127.0.0.1", port=1, entrypoint="", name=name)
    return own[-1](config=config, server_client=MagicMock(spec=ServerClient)).setup_webserver()


def main(port: int, names: list[str]) -> None:
    """Serve until the process is ended."""
    app = FastAPI()
    for name in names:
        try:
            app.mount(f"/{name}", made(name))
        except Exception as error:
            print(f"{name} is left out: {error!r}"[:300], file=sys.stderr)
    uvicorn.run(app, port=port, log_level="error")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
