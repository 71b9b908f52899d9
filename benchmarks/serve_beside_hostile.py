"""Measure how long a well-behaved client of `gym-llm serve` waits while four hostile ones send bodies of 30 MB.

    python benchmarks/serve_beside_hostile.py
    python benchmarks/serve_beside_hostile.py --kind within

The server is started as its users do, with 256 descriptors. The well-behaved client plays OpenEnv episodes over one
WebSocket and asks over HTTP with a new connection each, in turns. Each hostile client is a process of its own, which
sends in a loop:

- `findings`: nine million lists, 2.5 million names or a seed of lists, over `/reset`, `/verify` and `/mcp`, in frames
  of a WebSocket and in chunks. A fifth process holds 300 connections half open.
- `within`: the largest that the limits allow: a text of 32 MiB, 2 million numbers, 130,000 lists, 40,000 names.

Prints a JSON line last. It has the well-behaved client's milliseconds (p50, p99, max), alone and beside the hostile
ones. It also has the server's memory before, at most, and ten seconds after. The exit code is 1 if p99 is above
`--most`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

sys.path.append(str(Path(__file__).resolve().parent))
from ws_load import connect, frame, is_whole

_ENV = "gym_llm/FollowUp-v0"
_SIZE = 30_000_000
_DESCRIPTORS = 256


def bodies(kind: str) -> list[tuple[str, bytes]]:
    """The paths and bodies of the hostile clients."""
    if kind == "within":
        text = b'{"type":"step","action":{"output":"' + b"a" * 32_000_000 + b'"},"data":{}}'
        numbers = b'{"task":{"x":[' + b"70000," * 2_000_000 + b"0]}}"
        lists = b'{"task":{"x":[' + b"[]," * 130_000 + b"0]}}"
        names = b'{"task":{%b}}' % b",".join(b'"%d":1' % number for number in range(60_000))
        return [("/step", text), ("/reset", numbers), ("/reset", lists), ("/reset", names)]
    lists = b'{"x":[' + b"[]," * (_SIZE // 3) + b"0]}"
    seed = b'{"seed":[' + b"[]," * (_SIZE // 3) + b"0]}"
    names = b"{%b}" % b",".join(b'"%d":1' % number for number in range(2_500_000))
    return [("/reset", lists), ("/reset", names), ("/mcp", seed), ("/verify", seed)]


def _post(port: int, path: str, body: bytes, *, chunked: bool) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n".encode()
        connection.sendall(head + length + b"\r\n\r\n")
        if chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        connection.sendall(body)
        connection.recv(65_536)


def _send_frame(port: int, body: bytes) -> None:
    with connect(port, "/ws") as connection:
        connection.sendall(b"\x81\xff" + len(body).to_bytes(8, "big") + bytes(4) + body)
        connection.recv(65_536)


def attack(port: int, path: str, body: bytes) -> None:
    """Send a body in every way, again and again."""
    os.nice(19)  # as from another machine: what the clients themselves take of the processor is not the server's
    while True:
        for way in ("length", "chunked", "frame"):
            with suppress(OSError):  # it is refused before it is sent
                if way == "frame":
                    _send_frame(port, body)
                else:
                    _post(port, path, body, chunked=way == "chunked")


def hold_half_open(port: int, count: int) -> None:
    """Keep connections that never finish their head; those that are closed are opened again."""
    held: list[socket.socket] = []
    os.nice(19)
    while True:
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            held[-1].sendall(b"GET / HTTP/1.1\r\nHost: ")
        if len(held) >= count:
            held.pop(0).close()
            time.sleep(0.002)


def play(port: int, seconds: float) -> list[float]:
    """The seconds that a well-behaved client waited for each answer."""
    waited: list[float] = []
    until = time.perf_counter() + seconds
    session = connect(port, "/ws")
    messages = [frame(text) for text in ('{"type":"reset","data":{}}', '{"type":"step","data":{"output":"4"}}')]
    while time.perf_counter() < until:
        for message in messages:
            begun = time.perf_counter()
            session.sendall(message)
            data = b""
            while not is_whole(data):
                if not (piece := session.recv(65_536)):
                    raise ConnectionError("The server has hung up on the well-behaved client.")
                data += piece
            waited.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(b"GET /state HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            if not connection.recv(65_536).startswith(b"HTTP/1.1 200"):
                raise ConnectionError("The well-behaved client was refused.")
        waited.append(time.perf_counter() - begun)
        time.sleep(0.005)
    session.close()
    return waited


def figures(waited: list[float]) -> dict[str, float]:
    """The percentiles, in milliseconds."""
    waited = sorted(1e3 * seconds for seconds in waited)
    at = {"p50": waited[len(waited) // 2], "p99": waited[int(len(waited) * 0.99)], "max": waited[-1]}
    return {**{name: round(value, 1) for name, value in at.items()}, "answers": len(waited)}


def main() -> int:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("findings", "within"), default="findings")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--most", type=float, default=100.0, help="milliseconds of p99 (default 100)")
    options = parser.parse_args()
    command = f'ulimit -n {_DESCRIPTORS}; exec "{sys.executable}" -m gym_llm.cli serve {_ENV} --port 0'
    server = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True)
    fork = multiprocessing.get_context("fork")
    hostile: list[Any] = []
    result: dict[str, Any] = {"benchmark": "serve_beside_hostile", "kind": options.kind}
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().split(" at ")[1].split()[0].rstrip("/").rpartition(":")[2])
        process = psutil.Process(server.pid)
        result["alone_ms"] = figures(play(port, options.seconds / 4))
        memory = [process.memory_info().rss]
        hostile = [fork.Process(target=attack, args=(port, *body), daemon=True) for body in bodies(options.kind)]
        if options.kind == "findings":
            hostile.append(fork.Process(target=hold_half_open, args=(port, 300), daemon=True))
        for each in hostile:
            each.start()
        waited: list[float] = []
        until = time.perf_counter() + options.seconds
        while time.perf_counter() < until:
            waited += play(port, 0.5)
            memory.append(process.memory_info().rss)
        result["beside_ms"] = figures(waited)
        for each in hostile:
            each.kill()
        time.sleep(10)
        after = process.memory_info().rss
        megabytes = {"before": memory[0], "most": max(memory), "after": after}
        result["memory_mb"] = {name: round(value / 1e6) for name, value in megabytes.items()}
    finally:
        for each in hostile:
            each.kill()
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    print(json.dumps({**result, "load": os.getloadavg()}))
    return int(result["beside_ms"]["p99"] > options.most)


if __name__ == "__main__":
    sys.exit(main())
