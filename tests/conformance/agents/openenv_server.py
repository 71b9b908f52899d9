"""Runs OpenEnv's own capture server, unchanged, in the environment that `tests/peers.py` made; prints its URL.

Its packages' `__init__` files import the whole of OpenEnv (gradio, fastmcp), which the capture server needs nothing of;
so the packages are found by their folders, and only the modules of `openenv.core.harness.capture` are run.
"""

import importlib.util
import socket
import sys
import types
from pathlib import Path


def main(engine_url: str) -> None:
    spec = importlib.util.find_spec("openenv")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    for name in ("openenv", "openenv.core", "openenv.core.harness"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package

    import uvicorn
    from openenv.core.harness.capture.server import create_app

    # The level is named, as its documentation allows, because this engine's is known: no probe is sent to it.
    app = create_app(llm_url=engine_url, model="pocket", capture_level="tokens")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
