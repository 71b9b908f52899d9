"""EnvServer: who is let in, what is told of it, how it ends; over a wire of the tests' own."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from testing import in_loop, row

from gym_llm.errors import UsageError
from gym_llm.serve import EnvServer

ID = "gym_llm/FollowUp-v0"
TASKS = [row("A?", expected_answer="yes")]


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[tuple[EnvServer, aiohttp.ClientSession], None]:
    options = {"tasks": TASKS, "protocols": ["plain_wire:PlainWire"], "port": 0, **options}
    async with EnvServer(ID, **options) as server, aiohttp.ClientSession(server.url) as client:
        yield server, client


async def ask(client: aiohttp.ClientSession, method: str, path: str, **options: Any) -> tuple[int, Any]:
    async with client.request(method, path, **options) as answer:
        return answer.status, await answer.json()


@in_loop
async def test_an_environment_is_at_the_root_and_below_its_name():
    async with serving() as (_, client):
        for prefix in ("", "/FollowUp-v0"):
            status, opened = await ask(client, "POST", f"{prefix}/plain")
            assert (status, opened["input"][0]["content"]) == (200, "A?")
            mine = {"X-Session": opened["session"]}
            status, step = await ask(client, "POST", f"{prefix}/plain/step", headers=mine, json={"say": "yes"})
            assert status == 200 and isinstance(step["reward"], float)
        status, document = await ask(client, "GET", "/openapi.json")
        assert set(document["paths"]) == {
            *("/health", "/plain", "/plain/step"),
            *("/FollowUp-v0/health", "/FollowUp-v0/plain", "/FollowUp-v0/plain/step"),
        }
        status, refused = await ask(client, "GET", "/nowhere")
        assert status == 404 and "/openapi.json" in refused["error"]
        assert (await ask(client, "POST", "/plain/step", headers={"X-Session": "other"}))[1][
            "plain"
        ] == "UnknownSession"


@in_loop
async def test_only_health_is_told_without_the_token():
    async with serving(token="let-me-in-7!") as (_, client):
        for path, method in (("/plain", "POST"), ("/metrics", "GET"), ("/openapi.json", "GET"), ("/plain/ws", "GET")):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-API-Key": "let-me-in-7"}):
                async with client.request(method, path, headers=headers) as answer:
                    assert answer.status == 401, path
        assert await ask(client, "GET", "/health") == (200, {"status": "healthy"})
        for headers in ({"Authorization": "Bearer let-me-in-7!"}, {"X-API-Key": "let-me-in-7!"}):
            assert (await ask(client, "POST", "/plain", headers=headers))[0] == 200


@in_loop
async def test_each_environment_has_a_health_below_its_name():
    envs = [ID, "gym_llm/Counter-v0"]
    async with EnvServer(envs, port=0, token="let-me-in-7!") as server, aiohttp.ClientSession(server.url) as client:
        for path in ("/health", "/FollowUp-v0/health", "/Counter-v0/health"):
            assert await ask(client, "GET", path) == (200, {"status": "healthy"})
        assert (await ask(client, "GET", "/other/health"))[0] == 401
        headers = {"Authorization": "Bearer let-me-in-7!"}
        _, document = await ask(client, "GET", "/Counter-v0/openapi.json", headers=headers)
        assert document["servers"] == [{"url": "/Counter-v0"}] and {"/health", "/reset"} <= document["paths"].keys()


@in_loop
async def test_other_sites_and_names_are_refused():
    async with serving() as (_, client):
        foreign = ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"})
        picture = ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}, {"Sec-Fetch-Site": "same-site"})
        for headers in (*foreign, *picture):
            for path in ("/health", "/metrics", "/plain/ws"):
                async with client.get(path, headers=headers) as answer:
                    assert answer.status == 403, (headers, path)
        assert (await ask(client, "GET", "/health", headers={"Origin": "http://localhost:3000"}))[0] == 200
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        for headers in (link, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}):
            assert (await ask(client, "GET", "/health", headers=headers))[0] == 200
        assert (await ask(client, "POST", "/plain", headers=link))[0] == 403


@in_loop
async def test_metrics_count_sessions_and_outcomes_by_environment_and_wire():
    async with serving(capacity=7) as (_, client):
        _, opened = await ask(client, "POST", "/plain")
        await ask(client, "POST", "/plain")
        mine = {"X-Session": opened["session"]}
        while not (await ask(client, "POST", "/plain/step", headers=mine, json={"say": "yes"}))[1]["done"]:
            pass
        async with client.get("/metrics") as answer:
            told = (await answer.text()).splitlines()
    labels = 'env="gym_llm/FollowUp-v0",wire="plain_wire:PlainWire"'
    for line in (
        f'gym_llm_episodes_total{{{labels},outcome="scored"}} 1',
        f'gym_llm_sessions_total{{{labels},event="opened"}} 2',
        *("gym_llm_sessions_open 2", "gym_llm_sessions_capacity 7"),
        f"gym_llm_resets_total{{{labels}}} 2",
        'gym_llm_http_requests_total{route="POST /plain",status="200"} 2',
    ):
        assert line in told


@in_loop
async def test_a_server_that_ends_hangs_up_and_ends_the_episodes():
    async with serving() as (server, client):
        socket = await client.ws_connect("/plain/ws")
        await socket.send_str("who")
        await socket.receive()
        began = time.monotonic()
        await server.__aexit__()
        assert (await socket.receive()).data == 1001
        assert time.monotonic() - began < 2
        assert (len(server.sessions), server.sessions.counts["abandoned"]) == (0, 1)


def test_what_cannot_be_served_is_said():
    for arguments, said in (
        ({"protocols": ["openenw"]}, "There is no protocol 'openenw'."),
        ({"protocols": ["plain_wire:Nothing"]}, "cannot be imported"),
        ({"host": "0.0.0.0"}, "give a token"),
    ):
        with pytest.raises(UsageError, match=said):
            EnvServer(ID, **arguments)
    with pytest.raises(UsageError, match="single environment"):
        EnvServer([ID, "gym_llm/Weather-v0"], tasks=TASKS)
    with pytest.raises(UsageError, match="different names"):
        EnvServer([ID, ID])
    with pytest.raises(TypeError, match="no argument 'what'"):
        EnvServer(ID, env_kwargs={"what": 1})


def test_several_environments_have_arguments_of_their_own():
    server = EnvServer([ID, "gym_llm/Counter-v0"], protocols=[], env_kwargs={ID: {"max_turns": 3}})
    assert server.envs[0].verifier.max_turns == 3
