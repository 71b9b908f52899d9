"""Single-turn episodes a second over NeMo Gym's wire: seed a session, answer, have it verified.

    python benchmarks/serve_nemo.py

The server and the load run in separate processes. Many clients, on one connection each, send the requests of NeMo Gym's
simple agent. First comes `POST /seed_session` with the row, then `POST /verify` with the cookie, the row and the
response. They check each reward.

`wire` is without a model. In `with_model`, `benchmarks/chat_stub.py` in a third process replies after 50 ms. In this
shape NeMo Gym's own servers reach 129 episodes per second on 2 cores (12.2 ms of processor time each). Prints one JSON
line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from rollout_http import TASKS, raise_open_files

ENV_ID = "gym_llm/MultipleChoice-v0"
NEMO_GYM = 129.0
"""Episodes a second of NeMo Gym 0.4.0's own servers, in the shape `with_model`, measured on 2 cores."""
PROMISED = 20 * NEMO_GYM
_ANSWER = "\\boxed{A}"
_LATENCY_MS = 50
_STUB = Path(__file__).with_name("chat_stub.py")


class Connection(asyncio.Protocol):
    """One connection of a client that waits for each answer. A client library would cost as much as the server."""

    def __init__(self, host: str) -> None:
        self._head = f" HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n".encode()
        self._data = b""
        self._length = -1
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to write."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """An answer that was waited for will not come."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the server has closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Hand an answer over when it is whole."""
        self._data += data
        if self._length < 0:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return
            start = self._data.index(b"Content-Length: ") + 16
            self._length = end + 4 + int(self._data[start : self._data.index(b"\r\n", start)])
        if len(self._data) >= self._length and self._waiting is not None:
            answer, self._data, self._length = self._data, b"", -1
            self._waiting.set_result(answer)

    async def post(self, path: bytes, body: bytes, cookie: bytes = b"") -> bytes:
        """An answer, head and body."""
        self._waiting = asyncio.get_running_loop().create_future()
        lines = b"Cookie: " + cookie + b"\r\n" if cookie else b""
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        self._transport.write(b"".join((b"POST ", path, self._head, lines, length, body)))
        answer = await self._waiting
        if answer[9:12] != b"200":
            raise RuntimeError(answer[:500].decode())
        return answer

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


async def connected(url: str) -> Connection:
    """A connection to a server."""
    host, _, port = urlsplit(url).netloc.partition(":")
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(f"{host}:{port}"), host, int(port))
    return connection


def bodies() -> list[tuple[bytes, bytes]]:
    """What each task's episode sends: to /seed_session, and to /verify."""
    part = {"type": "output_text", "text": _ANSWER, "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 120, "output_tokens": 24, "total_tokens": 144}
    response = {"id": "resp_1", "object": "response", "created_at": 0, "model": "stub", "status": "completed"}
    whole = {**response, "output": [message], "usage": usage}
    rows = [{**task, "agent_ref": {"name": "agent"}, "_ng_task_index": n} for n, task in enumerate(TASKS)]
    return [(json.dumps(row).encode(), json.dumps({**row, "response": whole}).encode()) for row in rows]


@asynccontextmanager
async def process(*command: str) -> AsyncIterator[tuple[str, psutil.Process]]:
    """A process that says its address first."""
    popen = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE)
    try:
        assert popen.stdout is not None
        yield json.loads(popen.stdout.readline())["base_url"], psutil.Process(popen.pid)
    finally:
        popen.terminate()
        popen.wait()


async def measure(episodes: int, clients: int, *, with_model: bool) -> dict[str, Any]:
    """Figures of so many episodes."""
    async with (
        process(__file__, "--serve") as (url, server),
        process(str(_STUB), "--latency-ms", str(_LATENCY_MS)) as (
            model_url,
            _,
        ),
    ):
        requests = bodies()
        questions = [
            json.dumps({"model": "stub", "messages": task["responses_create_params"]["input"]}).encode()
            for task in TASKS
        ]
        path = urlsplit(model_url).path.encode() + b"/chat/completions"
        connections = await asyncio.gather(*(connected(url) for _ in range(clients)))
        models = await asyncio.gather(*(connected(model_url) for _ in range(clients if with_model else 0)))
        seconds: list[float] = []

        async def play(client: int, numbers: Any) -> None:
            connection = connections[client]
            for number in numbers:
                seed, verify = requests[number % len(requests)]
                begun = time.perf_counter()
                seeded = await connection.post(b"/seed_session", seed)
                seconds.append(time.perf_counter() - begun)
                start = seeded.index(b"Set-Cookie: ") + 12
                cookie = seeded[start : seeded.index(b";", start)]
                if with_model:
                    await models[client].post(path, questions[number % len(questions)])
                begun = time.perf_counter()
                verdict = await connection.post(b"/verify", verify, cookie)
                seconds.append(time.perf_counter() - begun)
                if b'"reward":1.0,"mask_sample":false' not in verdict:
                    raise RuntimeError(f"an answer that is right was not found so: {verdict[-300:].decode()}")

        async def all_play(count: int) -> None:
            numbers = iter(range(count))
            await asyncio.gather(*(play(client, numbers) for client in range(clients)))

        await all_play(4 * clients)
        seconds.clear()
        cpu, own, began = _cpu(server), time.process_time(), time.perf_counter()
        await all_play(episodes)
        wall = time.perf_counter() - began
        for connection in (*connections, *models):
            connection.close()
        return {
            "clients": clients,
            "episodes": episodes,
            "episodes_per_second": round(episodes / wall),
            "server_cpu_ms_per_episode": round((_cpu(server) - cpu) / episodes * 1e3, 3),
            "load_cpu_ms_per_episode": round((time.process_time() - own) / episodes * 1e3, 3),
            "request_p50_ms": round(statistics.median(seconds) * 1e3, 2),
            "request_p99_ms": round(statistics.quantiles(seconds, n=100)[98] * 1e3, 2),
        }


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def serve() -> None:
    """Serve until the process is ended."""
    from gym_llm.serve import EnvServer

    raise_open_files()
    async with EnvServer(ENV_ID, protocols=["nemo"], port=0) as server:
        print(json.dumps({"base_url": server.url}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=20_000, help="episodes per run (default 20000)")
    parser.add_argument("--clients", type=int, default=64, help="clients without a model (default 64)")
    parser.add_argument("--model-clients", type=int, default=256, help="clients with a model (default 256)")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median counts (default 3)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        from gym_llm.serve.event_loop import loop_factory

        with asyncio.Runner(loop_factory=loop_factory()) as runner:  # as `gym-llm serve` has it
            runner.run(serve())
        return
    raise_open_files()
    result: dict[str, Any] = {}
    for name, clients in (("wire", options.clients), ("with_model", options.model_clients)):
        runs = []
        for _ in range(options.runs):
            runs.append(asyncio.run(measure(options.episodes, clients, with_model=name == "with_model")))
            print(f"{name}: {runs[-1]}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        runs.sort(key=lambda run: run["episodes_per_second"])
        result[name] = {**runs[len(runs) // 2], "all": [run["episodes_per_second"] for run in runs]}
        result[name]["times_nemo_gym"] = round(result[name]["episodes_per_second"] / NEMO_GYM, 1)
    print(json.dumps({"benchmark": "serve_nemo", "unit": "episodes/s", "promised": PROMISED, **result}))


if __name__ == "__main__":
    main()
