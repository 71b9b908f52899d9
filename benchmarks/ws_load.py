"""Sessions that play as fast as they are answered, for `serve_openenv.py`: a WebSocket client in one loop of epoll.

It does as little as possible. It sends prepared bytes, finds the end of a reply by its length, and searches the reply
for a text. Its argument is a JSON object:

- `port`, `path`, and `pid` (the server's);
- `sessions`, `seconds`;
- `reset`, `step`: the messages; `expect`: a text of the reply that ends an episode.

Prints the measurements as JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import select
import socket
import time
from typing import Any

import psutil

_HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def frame(text: str) -> bytes:
    """A client's frame; masked with zeros, which says what it says."""
    payload = text.encode()
    length = len(payload)
    head = bytes((0x81, 0x80 | length)) if length < 126 else bytes((0x81, 0xFE)) + length.to_bytes(2, "big")
    return head + bytes(4) + payload


def connect(port: int, path: str) -> socket.socket:
    """A connection that is a WebSocket."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(_HANDSHAKE.format(path=path, port=port).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    if b" 101 " not in head.split(b"\r\n")[0]:
        raise ConnectionError(head.decode())
    return connection


def is_whole(data: bytes) -> bool:
    """Whether a server's frame has come to its end."""
    length = data[1] if len(data) > 1 else 1 << 30
    if length < 126:
        return len(data) >= length + 2
    if length == 126:
        return len(data) >= 4 and len(data) >= int.from_bytes(data[2:4], "big") + 4
    return len(data) >= 10 and len(data) >= int.from_bytes(data[2:10], "big") + 10


def play(
    port: int, pid: int, sessions: int, seconds: float, path: str, reset: str, step: str, expect: str
) -> dict[str, Any]:
    """Play for so long, after a warm-up of a quarter of it; what was measured."""
    connections = [connect(port, path) for _ in range(sessions)]
    poll = select.epoll()
    sockets = {connection.fileno(): connection for connection in connections}
    frames = (frame(reset), frame(step))
    wanted = expect.encode()
    turns = dict.fromkeys(sockets, 0)
    parts: dict[int, bytes] = {}
    sent: dict[int, float] = {}
    latencies: list[float] = []
    episodes = wrong = 0
    psutil.Process().cpu_affinity((psutil.Process().cpu_affinity() or [])[-1:])  # or both take turns on one core
    gc.disable()
    clock = time.perf_counter
    for number, connection in sockets.items():
        poll.register(number, select.EPOLLIN)
        connection.setblocking(False)
        sent[number] = clock()
        connection.send(frames[0])
    measured_from = clock() + seconds / 4
    until = measured_from + seconds
    server = psutil.Process(pid)
    is_measuring, cpu, server_cpu = False, 0.0, 0.0
    while (now := clock()) < until:
        if not is_measuring and now >= measured_from:
            is_measuring, measured_from, cpu = True, now, time.process_time()
            server_cpu = sum(server.cpu_times()[:2])
            latencies.clear()
            episodes = 0
        for number, _ in poll.poll(0.1):
            connection = sockets[number]
            data = connection.recv(4096)
            if not data:
                raise ConnectionError("The server has hung up.")
            if number in parts:
                data = parts.pop(number) + data
            if not is_whole(data):
                parts[number] = data
                continue
            now = clock()
            turn = turns[number]
            if turn:
                latencies.append(now - sent[number])
                episodes += 1
                if wanted not in data:
                    wrong += 1
            turns[number] = turn = 1 - turn
            sent[number] = now
            connection.send(frames[turn])
    elapsed = clock() - measured_from
    cpu = time.process_time() - cpu
    server_cpu = sum(server.cpu_times()[:2]) - server_cpu
    latencies.sort()
    for connection in connections:
        connection.close()
    return {
        "episodes_per_second": round(episodes / elapsed, 1),
        "step_p50_ms": round(1e3 * latencies[len(latencies) // 2], 3),
        "step_p99_ms": round(1e3 * latencies[int(len(latencies) * 0.99)], 3),
        "wrong": wrong,
        "server_cpu": round(server_cpu / elapsed, 2),
        "server_us_per_episode": round(1e6 * server_cpu / episodes, 1),
        "client_cpu": round(cpu / elapsed, 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("load", type=json.loads, metavar="JSON", help="see above; serve_openenv.py gives it")
    print(json.dumps(play(**parser.parse_args().load)))
