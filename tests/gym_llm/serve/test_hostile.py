"""Hostile clients: broken frames, bodies and heads, clients that vanish, sessions that are left; and who is let in.

`benchmarks/serve_hostile.py` does the same on a large scale, and looks at the server's memory.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from hostile_serving import (
    ENV,
    Findings,
    at_once,
    figures,
    fuzz_sockets,
    open_mcp,
    open_nemo,
    open_socket,
    vanish,
)
from testing import in_loop

from gym_llm import make_engine
from gym_llm.agents.capture import CaptureServer, CaptureSession
from gym_llm.serve import EnvServer, EnvWorkers, ModelServer

TOKEN = "let-me-in-8!"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@asynccontextmanager
async def serving(workers: int = 0, **options: Any) -> AsyncGenerator[tuple[str, aiohttp.ClientSession], None]:
    options = {"port": 0, "token": TOKEN, **options}
    server = EnvWorkers(ENV, workers=workers, **options) if workers else EnvServer(ENV, **options)
    async with server, aiohttp.ClientSession(server.url, headers=HEADERS) as client:
        yield server.url, client


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_fuzzed_frames_and_clients_that_vanish_break_nothing(workers: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        findings, rng = Findings(), random.Random(1)
        async with serving(workers) as (url, client):
            await fuzz_sockets(url, 4_000, findings, paths=("/ws", f"/{ENV[8:]}/ws"), headers=HEADERS)
            await at_once(400, 16, lambda: vanish(url, HEADERS, rng))
            held: list[Any] = []
            await at_once(20, 4, lambda: open_socket(url, HEADERS, findings, held))
            await at_once(20, 4, lambda: open_nemo(client, findings))
            await at_once(20, 4, lambda: open_mcp(client, findings))
            assert (await figures(client))["gym_llm_sessions_open"] >= 60
            for writer in held:
                writer.transport.abort()
        assert findings.wrong == []
        assert findings.counts["frames"] >= 4_000 and findings.counts["bytes read"] > 100_000

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == []


@in_loop
async def test_all_is_refused_without_the_token_and_to_other_sites():
    engine = make_engine("constant:yes")
    env_server, model_server = EnvServer(ENV, port=0, token=TOKEN), ModelServer(engine, port=0, token=TOKEN)
    capture_server = CaptureServer(make_engine("constant:yes"), port=0, token=TOKEN)
    async with env_server, model_server, capture_server, aiohttp.ClientSession() as client:
        env_url, model_url = env_server.url, model_server.url.removesuffix("/v1")
        capture_url = capture_server.url
        asked = [
            *(("GET", f"{env_url}{path}") for path in ("/ws", "/mcp", "/metadata", "/schema", "/state", "/metrics")),
            *(("GET", f"{env_url}{path}") for path in ("/openapi.json", "/reverify_mode", "/list_environments", "/x")),
            *(("POST", f"{env_url}{path}") for path in ("/reset", "/step", "/mcp", "/seed_session", "/verify", "/x")),
            *(("POST", f"{url}/health") for url in (env_url, model_url)),  # of NeMo Gym's wire that is a tool's address
            *(("GET", f"{model_url}{path}") for path in ("/v1/models", "/metrics", "/x")),
            *(("POST", f"{model_url}/v1/{path}") for path in ("responses", "chat/completions", "messages", "x")),
            *(("POST", f"{capture_url}{path}") for path in ("/sessions", "/ng-rollout/r/v1/chat/completions")),
            *(("POST", f"{capture_url}{path}") for path in ("/v1/responses", "/v1/messages", "/s/x/v1/messages")),
            *(
                ("GET", f"{capture_url}{path}")
                for path in ("/sessions", "/sessions/x/rollout", "/metrics", "/v1/models")
            ),
        ]
        for method, url in asked:
            for headers, status in (
                ({}, 401),
                ({"Authorization": "Bearer wrong"}, 401),
                ({"Authorization": f"Basic {TOKEN}"}, 401),
                ({"X-API-Key": ""}, 401),
                ({**HEADERS, "Host": "evil.example"}, 403),
                ({**HEADERS, "Origin": "https://evil.example"}, 403),
                ({"Origin": "null"}, 403),
            ):
                async with client.request(method, url, headers=headers, json={}) as answer:
                    assert answer.status == status, (method, url, headers)
                    assert TOKEN not in await answer.text()
        for url in (env_url, model_url, capture_url):
            async with client.get(f"{url}/health") as answer:
                assert answer.status == 200
            async with client.get(f"{url}/health", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403


@in_loop
async def test_what_is_no_http_fills_no_log(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        async with serving() as (url, client):
            for data in (
                b"GET / HTTP/9.9\r\n\r\n",
                b"\x16\x03\x01\r\n\r\n",
                b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            ):
                reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
                writer.write(data)
                assert b" 400 " in (await reader.read()).splitlines()[0]
                writer.close()
            assert (await client.get("/health")).status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@in_loop
async def test_bodies_that_are_not_encoded_as_they_say_are_refused(caplog: pytest.LogCaptureFixture):
    engine = make_engine("constant:yes")
    env_server, model_server = EnvServer(ENV, port=0), ModelServer(engine, port=0)
    with caplog.at_level(logging.WARNING):
        async with env_server, model_server, CaptureServer(engine, port=0) as capture_server:
            model_url = model_server.url.removesuffix("/v1")
            paths = ("reset", "step", "mcp", "seed_session", "verify", "close_session", "look")
            urls = [f"{env_server.url}/{path}" for path in paths]
            urls += [f"{model_url}/v1/{path}" for path in ("responses", "chat/completions", "messages")]
            for url in [*urls, f"{capture_server.url}/sessions"]:
                async with (
                    aiohttp.ClientSession() as client,
                    client.post(url, data=b"no gzip", headers={**_JSON, "Content-Encoding": "gzip"}) as answer,
                ):
                    assert answer.status in (400, 404, 422), url  # 422 is NeMo Gym's
    assert [record.getMessage() for record in caplog.records] == []


@in_loop
async def test_bodies_that_are_nested_as_deep_as_json_goes_are_refused(caplog: pytest.LogCaptureFixture):
    engine = make_engine("pocket", max_new_tokens=4)
    env_server, model_server = EnvServer(ENV, port=0), ModelServer(engine, port=0)
    with caplog.at_level(logging.WARNING):
        async with env_server, model_server, CaptureServer(engine, port=0) as capture_server:
            session = CaptureSession(engine)
            capture_server.open(session)
            bases = model_server.url.removesuffix("/v1"), capture_server.url
            asked = [(f"{base}{path}", body) for base in bases for path, body in _ASKED.items()]
            places = [(*ask, name) for ask in asked for name in ("model", "temperature", "seed", "tool_choice", "text")]
            places += [(f"{capture_server.url}/sessions", "", name) for name in ("sampling", "metadata", "purpose")]
            places += [(f"{env_server.url}/{path}", "", "session_id") for path in ("reset", "step")]
            async with aiohttp.ClientSession(headers={**_JSON, "Authorization": f"Bearer {session.id}"}) as client:
                for url, body, name in places:
                    for begin, end in (("[", "]"), ('{"type":', "}")):
                        deep = f'{{{body}"{name}":{begin * 1_010}1{end * 1_010}}}'
                        async with client.post(url, data=deep) as answer:
                            assert answer.status < 500, (url, name, await answer.text())
    assert [record.getMessage() for record in caplog.records] == []


@in_loop
async def test_who_names_no_host_is_refused_without_asking_the_network(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    monkeypatch.setattr("socket.getfqdn", lambda name="": asked.append(name) or "localhost")
    async with serving() as (url, _):
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        writer.write(b"GET /health HTTP/1.0\r\n\r\n")
        assert b" 403 " in (await reader.read()).splitlines()[0]
        writer.close()
    assert asked == []


_JSON = {"Content-Type": "application/json"}
_ASKED = {
    "/v1/responses": '"input":"x",',
    "/v1/chat/completions": '"messages":[{"role":"user","content":"x"}],',
    "/v1/messages": '"max_tokens":4,"messages":[{"role":"user","content":"x"}],',
}
