"""Measure the episodes per second of OpenEnv's own server and ours, side by side.

One process serves a counter, where an episode is a reset and a step. `benchmarks/ws_load.py` plays it in another
process, with 1, 64 and 1,024 sessions at once, and checks every reply. The servers:

- `template`: OpenEnv's server, started as in its template for environments, with a counter as an OpenEnv environment.
- `tuned`: the same with uvloop, and without an access log.
- `adapter`: the tuned server with our counter, so that both servers do the same work.
- `gym_llm`, `gym_llm_uvloop`: ours, with asyncio's event loop or uvloop's.

The servers take turns, so that other load on the machine affects all; the figures are medians. At the end, 10,000 idle
sessions are open at our server, each in an episode. OpenEnv's server runs in its own environment (`tests/peers.py`).

Each row has episodes per second, the milliseconds of a step (p50, p99), and the server's memory. Processor time is in
cores and in µs per episode. Other processes change the µs only slightly. The client's processor time is there, too;
below 1 core it is not the bottleneck.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from gymnasium import register
from ws_load import connect, frame, is_whole

from gym_llm import Episode, VerifierEnv

HERE = Path(__file__).parent
ROOT = HERE.parent
ENV_ID = "benchmarks/OneStepCounter-v0"
TASKS = [{"responses_create_params": {"input": [{"role": "user", "content": "Add 3 to the counter."}]}}]
THEIRS, OURS = ("template", "tuned", "adapter"), ("gym_llm", "gym_llm_uvloop")
RESET = '{"type":"reset","data":{}}'
STEPS = {
    **dict.fromkeys(("template", "tuned"), '{"type":"step","data":{"amount":3}}'),
    **dict.fromkeys(("adapter", *OURS), '{"type":"step","data":{"output":"3"}}'),
}
EXPECTED = '"reward":1.0,"done":true'


class OneStepCounter(VerifierEnv):
    """Add to a counter; the reward is 1.0 if it stands at 3."""

    def setup(self, task: Any) -> list[int]:
        """Begin at 0."""
        return [0]

    def verify(self, task: Any, episode: Episode) -> float:
        """Add, and look."""
        episode.state[0] += int(episode.answer)
        return float(episode.state[0] == 3)


register(ENV_ID, OneStepCounter)  # type: ignore[arg-type]


def serve(port: int, name: str) -> None:
    """Our server, until it is ended."""
    import asyncio

    from gym_llm.concurrency.relaxed_gc import relax_gc
    from gym_llm.serve import EnvServer

    relax_gc()  # as `gym-llm serve` does

    async def run() -> None:
        async with EnvServer(ENV_ID, tasks=TASKS, protocols=["openenv"], port=port):
            await asyncio.Event().wait()

    factory = None
    if name == "gym_llm_uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run())


@contextmanager
def served(name: str) -> Iterator[tuple[int, psutil.Process]]:
    """A server's port and process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if name in THEIRS:
        sys.path.insert(0, str(ROOT / "tests"))
        from peers import peer_python

        command = [str(peer_python("openenv")), str(HERE / "openenv_counter.py"), str(port), name]
    else:
        command = [sys.executable, __file__, "--serve", str(port), "--only", name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL if name in THEIRS else None  # its access log, and what it says when clients leave
    process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError(f"The server of {name} has ended.") from None
                time.sleep(0.1)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def measure(port: int, process: psutil.Process, name: str, sessions: int, seconds: float) -> dict[str, Any]:
    """One level of one server."""
    load = {"port": port, "pid": process.pid, "sessions": sessions, "seconds": seconds, "path": "/ws"}
    load |= {"reset": RESET, "step": STEPS[name], "expect": EXPECTED}
    command = [sys.executable, str(HERE / "ws_load.py"), json.dumps(load)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr)
    result = {**json.loads(run.stdout), "server_rss_mb": round(process.memory_info().rss / 1e6)}
    print(f"{name:14} {sessions:6,} sessions: {result}", flush=True)
    return result


def medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several rounds; `wrong` is their sum."""
    middle = {key: statistics.median(result[key] for result in results) for key in results[0]}
    return {**middle, "wrong": sum(result["wrong"] for result in results)}


def idle(port: int, process: psutil.Process, count: int) -> dict[str, Any]:
    """Memory with so many sessions that have begun an episode; one of them is asked again."""
    before = process.memory_info().rss / 1e6
    connections = []
    for _ in range(count):
        connection = connect(port, "/ws")
        connection.sendall(frame(RESET))
        connections.append(connection)
    for connection in connections:
        data = b""
        while not is_whole(data):
            data += connection.recv(65_536)
    rss = process.memory_info().rss / 1e6
    begun = time.perf_counter()
    connections[0].sendall(frame(STEPS["gym_llm"]))
    answered = EXPECTED.encode() in connections[0].recv(65_536)
    seconds = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    each = round(1e3 * (rss - before) / count, 1)
    result = {"sessions": count, "rss_mb": round(rss), "kb_each": each, "step_ms": round(1e3 * seconds, 2)}
    print(f"gym_llm idle: {result}", flush=True)
    return {**result, "answered": answered}


def ratios(results: dict[str, dict[str, Any]], key: str) -> dict[str, float]:
    """How many times a figure of ours is theirs: at each level, of each pair of servers."""
    levels = {name: set(levels) for name, levels in results.items()}
    return {
        f"{ours}/{theirs} at {level}": round(results[ours][level][key] / results[theirs][level][key], 2)
        for ours in OURS
        for theirs in THEIRS
        for level in sorted(levels.get(ours, set()) & levels.get(theirs, set()), key=int)
    }


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="*", default=[1, 64, 1024], help="at once")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement, after a warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="in which the servers take turns")
    parser.add_argument("--idle", type=int, default=10_000, help="sessions that do nothing; 0 leaves it out")
    parser.add_argument("--only", choices=STEPS, nargs="*", default=list(STEPS), help="which servers")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.only[0])
        return
    results: dict[str, dict[str, Any]] = {name: {} for name in options.only}
    for sessions in options.sessions:
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in options.only}
        for _ in range(options.rounds):
            for name in options.only:
                with served(name) as (port, process):
                    rounds[name].append(measure(port, process, name, sessions, options.seconds))
        for name in options.only:
            results[name][str(sessions)] = medians(rounds[name])
    summary: dict[str, Any] = {**results, "times_as_fast": ratios(results, "episodes_per_second")}
    summary["times_the_processor_time"] = ratios(results, "server_us_per_episode")
    if options.idle:
        with served("gym_llm") as (port, process):
            summary["idle"] = idle(port, process, options.idle)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
