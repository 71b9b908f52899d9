"""A Chat Completions server that answers every request after a fixed latency, for `benchmarks/rollout_http.py`.

Run as a second process: it prints its base URL as one JSON line, then serves until it is terminated. The answer is
always the same, so what a client measures is the client. `GET /stats` says how many requests came, how many were being
answered at the same time at most, and how many connections were opened.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
from typing import Any

from aiohttp import web


class ChatStub:
    """The server.

    Args:
        latency: Seconds between reading a request and answering it.
        answer: The assistant's message.
        turns: With more than 1, every answer but the last of so many calls the tool `look_up`, with token ids.
    """

    def __init__(self, latency: float, answer: str, turns: int = 1) -> None:
        self.latency = latency
        self.requests = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        self.connections: set[int] = set()
        completion = {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 0,
            "model": "stub",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 8, "total_tokens": 108},
        }
        self.completions = [json.dumps(completion).encode()]
        if turns > 1:
            self.completions = [turn_of(completion, turn, turns) for turn in range(turns)]

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request; no router, so that the stub is not what is measured."""
        path = request.path
        if path == "/v1/chat/completions":
            self.requests += 1
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
            self.connections.add(id(request.protocol))
            try:
                turn = (await request.read()).count(b'"role":"tool"') if len(self.completions) > 1 else 0
                await asyncio.sleep(self.latency)
            finally:
                self.in_flight -= 1
            return web.Response(
                body=self.completions[min(turn, len(self.completions) - 1)], content_type="application/json"
            )
        if path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": "stub", "object": "model"}]})
        if path == "/stats":
            stats = {
                "requests": self.requests,
                "peak_in_flight": self.peak_in_flight,
                "connections": len(self.connections),
                "cpu_s": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
            }
            return web.json_response(stats)
        return web.json_response({"error": {"message": f"no such path: {path}"}}, status=404)


def turn_of(completion: dict[str, Any], turn: int, turns: int) -> bytes:
    """Return the answer of one turn, with the token ids that a model server gives: 20 new ones and 40 sampled ones."""
    choice = dict(completion["choices"][0])
    if turn < turns - 1:
        function = {"name": "look_up", "arguments": json.dumps({"word": f"word{turn}"})}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        choice |= {
            "message": {"role": "assistant", "content": None, "tool_calls": [call]},
            "finish_reason": "tool_calls",
        }
    choice["token_ids"] = [(977 * (turn + 1) * index) % 150_000 for index in range(40)]
    choice["logprobs"] = {"content": [{"token": "x", "logprob": -index / 977} for index in range(40)]}
    prompt = [(7919 * index) % 150_000 for index in range(20 + 60 * turn)]
    return json.dumps({**completion, "choices": [choice], "prompt_token_ids": prompt}).encode()


async def serve(port: int, latency: float, answer: str, turns: int) -> None:
    """Serve on 127.0.0.1 until cancelled; `port` 0 takes a free one."""
    stub = ChatStub(latency, answer, turns)
    server = web.Server(stub.handle, keepalive_timeout=600, access_log=None)
    listener = socket.create_server(("127.0.0.1", port), backlog=65_535)  # the kernel cuts it to net.core.somaxconn
    await asyncio.get_running_loop().create_server(server, sock=listener, backlog=65_535)
    print(json.dumps({"base_url": f"http://127.0.0.1:{listener.getsockname()[1]}/v1"}), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: a free one (default)")
    parser.add_argument("--latency-ms", type=float, default=50.0, help="milliseconds per answer (default: 50)")
    parser.add_argument("--answer", default="The answer is \\boxed{A}.", help="what the model says")
    parser.add_argument("--turns", type=int, default=1, help="of an episode that calls a tool (default: 1, no calls)")
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        asyncio.run(serve(args.port, args.latency_ms / 1000, args.answer, args.turns))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
