"""Servers that `foreign_parity.py` records from: each framework's own package serves."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gym_llm.envs.theirs.environments import python_of
from gym_llm.envs.theirs.frameworks import frameworks

HERE = Path(__file__).resolve().parent
_START_SECONDS = 60.0


def own_python(name: str) -> Path:
    """The Python in which a framework itself runs: to ask a server of OpenEnv, gym_llm does not need its package."""
    framework = frameworks()[name]
    if name == "tau2":
        framework = framework.with_arguments({"source": ""})
        framework = replace(framework, packages=(*framework.packages, "gymnasium"))  # its own environment's extra
    if name == "openenv":
        framework = replace(framework, packages=("openenv==0.10.0", "uvloop"))
    return python_of(framework)


@contextlib.contextmanager
def serving(name: str) -> Iterator[dict[str, str]]:
    """Start a framework's server, if it needs one; yields the variables that say where it is."""
    if name == "mcp":
        yield {"MCP_SERVERS": str(HERE)}
        return
    if name.startswith("verifiers"):
        yield {"PYTHONPATH": str(HERE.parent / "tests" / "envs" / "theirs")}
        return
    if name != "openenv":
        yield {}
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [str(own_python(name)), str(HERE / "foreign_openenv_server.py"), str(port)]
    with subprocess.Popen(command, env={**os.environ}, start_new_session=True) as process:
        try:
            _wait(port, process)
            yield {"OPENENV_URL": f"http://127.0.0.1:{port}"}
        finally:
            process.terminate()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(int(_START_SECONDS * 10)):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("The server did not start.")
