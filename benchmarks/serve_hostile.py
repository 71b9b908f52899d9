"""Hostile clients of `gym-llm serve`: it neither falls over, nor grows, nor mixes sessions up.

    python benchmarks/serve_hostile.py --frames 200000 --sessions 16384 --rounds 4

It starts the server as its users do, in a separate process, and sends fuzzed WebSocket frames. Clients are slow, or
vanish. In each round, clients of every protocol open `--sessions` sessions and drop them, and the server's memory is
measured. Every session's task has its own mark, and replies are searched for the marks of other sessions.

Prints a JSON line last. The exit code is 1 for a mark of another session, an HTTP 5xx or a traceback in the server's
log. It is also 1 if memory grows by more than 5 % between the second round and the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from hostile_serving import ENV, Findings, at_once, figures, fuzz_sockets, open_mcp, open_nemo, open_socket, vanish

_TOKEN = "hostile-but-known-1"
_HEADERS = {"Authorization": f"Bearer {_TOKEN}"}
_SETTLE_SECONDS = 300.0


async def settled(client: aiohttp.ClientSession) -> float:
    """Wait until there is no session (they expire, OpenEnv's a minute after their connection); the memory then, MB."""
    until = time.monotonic() + _SETTLE_SECONDS
    while (told := await figures(client))["gym_llm_sessions_open"] and time.monotonic() < until:
        await asyncio.sleep(0.5)
    await asyncio.sleep(3.0)  # their episodes end, and what they leave is collected
    told = await figures(client)
    return round(told["process_resident_memory_bytes"] / 1e6, 1)


async def rounds(
    url: str, client: aiohttp.ClientSession, wire: str, sessions: int, count: int, findings: Findings
) -> list[float]:
    memory = []
    for _ in range(count):
        held: list[Any] = []
        began = time.monotonic()
        if wire == "openenv":
            await at_once(sessions, 128, lambda held=held: open_socket(url, _HEADERS, findings, held))  # type: ignore[misc]
        elif wire == "nemo":
            await at_once(sessions, 128, lambda: open_nemo(client, findings))
        else:
            await at_once(sessions, 128, lambda: open_mcp(client, findings))
        opened_in = time.monotonic() - began
        open_now = int((await figures(client))["gym_llm_sessions_open"])
        findings.counts[f"most open over {wire}"] = max(findings.counts[f"most open over {wire}"], open_now)
        for writer in held:
            writer.transport.abort()
        memory.append(await settled(client))
        print(f"{wire}: {open_now:,} open after {opened_in:.0f} s; {memory[-1]} MB when they had gone", flush=True)
    return memory


async def campaign(url: str, options: argparse.Namespace) -> tuple[Findings, dict[str, Any]]:
    findings, result = Findings(), dict[str, Any]()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers=_HEADERS, connector=connector) as client:
        began = time.monotonic()
        await fuzz_sockets(url, options.frames, findings, paths=("/ws", f"/{ENV[8:]}/ws"), headers=_HEADERS)
        result["frames_seconds"] = round(time.monotonic() - began, 1)
        rng = random.Random(0)
        await at_once(options.vanish, 64, lambda: vanish(url, _HEADERS, rng))
        result["memory_mb"] = {"after frames and vanished clients": await settled(client)}
        for wire in options.protocols.split(","):
            result["memory_mb"][wire] = await rounds(url, client, wire, options.sessions, options.rounds, findings)
    return findings, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--vanish", type=int, default=5_000, help="clients that vanish")
    parser.add_argument("--sessions", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--protocols", default="openenv,nemo,mcp", help="whose sessions are opened")
    parser.add_argument("--idle-seconds", type=float, default=90.0, help="more than it takes to open the sessions")
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    command = [sys.executable, "-m", "gym_llm.cli", "serve", ENV, "--port", "0", "--workers", str(options.workers)]
    command += ["--idle-seconds", str(options.idle_seconds), "--max-sessions", str(options.sessions + 1_000)]
    with tempfile.TemporaryFile("w+") as log:
        environment = {**os.environ, "GYM_LLM_TOKEN": _TOKEN}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split(" at ")[1].split()[0]
            findings, result = asyncio.run(campaign(url, options))
            is_alive = process.poll() is None
        finally:
            process.terminate()
            code = process.wait(60)
        log.seek(0)
        text = log.read()
    wrong = findings.wrong + ([] if is_alive and code == 0 else [f"The server ended by itself, or with code {code}."])
    if "Traceback" in text:
        wrong.append("Its log has tracebacks:\n" + text[:6_000])
    for name, memory in result["memory_mb"].items():
        if isinstance(memory, list) and len(memory) > 2 and memory[-1] > 1.05 * memory[1]:
            wrong.append(f"Memory grew over {name}: {memory} MB.")
    for sentence in wrong[:20]:
        print(sentence)
    print(json.dumps({"counts": dict(findings.counts), **result, "wrong": len(wrong), "load": os.getloadavg()}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
