"""Measure the cost of capture per model call: 256 agents in conversations, beside a bare server of the same answers.

    python benchmarks/capture.py

There are two servers in separate processes. `CaptureServer` has an engine that replies after half a second with token
ids. A bare aiohttp server reads the body, waits as long and sends the same chat completion. A client in this process
has 256 conversations of 8 calls with each server in turn, several times. It measures the median latency over all calls,
and the server's processor time:

- `added_ms`: the difference of the two medians;
- `cpu_ms`: processor time of the capture server per call, with HTTP and JSON;
- `added_cpu_ms`: the difference from the bare server.

Prints one JSON line last, with the medians over the pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import aiohttp
import psutil
from aiohttp import web

from gym_llm.engines import Engine
from gym_llm.engines.engine import Capabilities
from gym_llm.serve.event_loop import loop_factory
from gym_llm.types import TOKEN_FIELDS, Request, ResponseDict
from gym_llm.utils.json_codec import dumps, loads

MODEL_SECONDS = 0.5
AGENTS, CALLS = 256, 8
SAMPLED = 64
_TEXT = "It is a fine day, and the answer to what you have asked is forty-two. " * 4


class Instant(Engine):
    """Answers with the ids so far, 20 new ones for what was said since, and 64 that it samples."""

    model = "instant"
    capabilities = Capabilities(token_ids=True, tools=True)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer after a while, as a model does."""
        await asyncio.sleep(MODEL_SECONDS)
        last = next((item for item in reversed(request["input"]) if TOKEN_FIELDS[0] in item), None)
        before = [] if last is None else last["prompt_token_ids"] + last["generation_token_ids"]
        prompt = [*before, *range(len(before), len(before) + 20)]
        return response_of(prompt)


def response_of(prompt: list[int]) -> ResponseDict:
    """One turn with these ids before it."""
    tokens = (prompt, list(range(1000, 1000 + SAMPLED)), [-0.25] * SAMPLED)
    part = {"type": "output_text", "text": _TEXT, "annotations": []}
    message: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    message |= {"content": [part], **dict(zip(TOKEN_FIELDS, tokens, strict=True))}
    usage: Any = {"input_tokens": len(prompt), "output_tokens": SAMPLED, "total_tokens": len(prompt) + SAMPLED}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "instant",
        "status": "completed",
        "output": [message],
        "usage": usage,
    }


async def serve(kind: str) -> None:
    """Serve until the process is ended; prints the address."""
    if kind == "capture":
        from gym_llm.agents.capture import CaptureServer

        async with CaptureServer(Instant()) as server:
            print(server.url, flush=True)
            await asyncio.Event().wait()
    message = {"role": "assistant", "content": _TEXT}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    completion = {"id": "1", "object": "chat.completion", "created": 1, "model": "instant", "choices": [choice]}
    completion["usage"] = {"prompt_tokens": 1, "completion_tokens": SAMPLED, "total_tokens": SAMPLED + 1}
    sessions = 0

    async def chat(http: web.Request) -> web.Response:
        assert loads(await http.read())["messages"]
        await asyncio.sleep(MODEL_SECONDS)
        return web.Response(body=dumps(completion), content_type="application/json")

    async def open_session(_: web.Request) -> web.Response:
        nonlocal sessions
        sessions += 1
        return web.json_response({"session_id": f"s{sessions}"})

    application = web.Application()
    application.add_routes([web.post("/v1/chat/completions", chat), web.post("/sessions", open_session)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


async def load(url: str, check: bool) -> list[float]:
    """The seconds of each call of 256 conversations."""
    seconds: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector) as client:

        async def converse(number: int) -> None:
            async with client.post("/sessions", json={}) as reply:
                session = (await reply.json())["session_id"]
            await asyncio.sleep(MODEL_SECONDS * number / AGENTS)  # agents do not ask in step
            messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
            headers = {"Authorization": f"Bearer {session}", "Content-Type": "application/json"}
            for call in range(CALLS):
                messages.append({"role": "user", "content": f"And what is this, number {call}?"})
                body = dumps({"model": "m", "messages": messages, "temperature": 1.0})
                begun = time.perf_counter()
                async with client.post("/v1/chat/completions", data=body, headers=headers) as reply:
                    answer = loads(await reply.read())
                seconds.append(time.perf_counter() - begun)
                messages.append(answer["choices"][0]["message"])
            if check:
                async with client.get(f"/sessions/{session}/trajectory") as reply:
                    (branch,) = (await reply.json())["trajectory"]
                assert sum(branch["loss_mask"]) == CALLS * SAMPLED, "a sampled id is missing"
                async with client.delete(f"/sessions/{session}") as reply:
                    assert (await reply.json())["deleted"]

        await asyncio.gather(*map(converse, range(AGENTS)))
    return seconds


def measure(kind: str) -> tuple[float, float]:
    """Median latency and the server's processor time a call, in milliseconds."""
    with subprocess.Popen([sys.executable, __file__, "--serve", kind], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            asyncio.run(load(url, check=False))  # warm
            process = psutil.Process(server.pid)
            before = process.cpu_times()
            seconds = asyncio.run(load(url, check=False))
            after = process.cpu_times()
            if kind == "capture":
                asyncio.run(load(url, check=True))
        finally:
            server.terminate()
    cpu = after.user + after.system - before.user - before.system
    return statistics.median(seconds) * 1e3, cpu / (AGENTS * CALLS) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, metavar="N")
    parser.add_argument("--serve", choices=("capture", "bare"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        psutil.Process().cpu_affinity([])  # all: what it inherited is the client's
        with asyncio.Runner(loop_factory=loop_factory()) as runner:  # as `gym-llm capture` does
            runner.run(serve(arguments.serve))
        return
    cores = psutil.Process().cpu_affinity() or []
    psutil.Process().cpu_affinity(cores[-1:])  # or Linux has client and server take turns on one core
    added, ours, bare = [], [], []
    for number in range(arguments.pairs):
        kinds = ("capture", "bare") if number % 2 else ("bare", "capture")
        figures = {kind: measure(kind) for kind in kinds}
        added.append(figures["capture"][0] - figures["bare"][0])
        ours.append(figures["capture"][1])
        bare.append(figures["bare"][1])
        print(f"added {added[-1]:.2f} ms, CPU {ours[-1]:.3f} ms a call (bare server: {bare[-1]:.3f} ms)", flush=True)
    result = {
        "agents": AGENTS,
        "calls": AGENTS * CALLS,
        "added_ms": round(statistics.median(added), 3),
        "cpu_ms": round(statistics.median(ours), 3),
        "bare_cpu_ms": round(statistics.median(bare), 3),
        "added_cpu_ms": round(statistics.median(mine - its for mine, its in zip(ours, bare, strict=True)), 3),
        "all_added_ms": [round(value, 3) for value in added],
        "all_cpu_ms": [round(value, 3) for value in ours],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
