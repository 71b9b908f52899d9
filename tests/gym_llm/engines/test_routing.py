"""Sessions over several servers: the header, groups on one server, fail-over, and what was in the servers' caches."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from testing import in_loop, row, serving

import gym_llm
from gym_llm.engines import http
from gym_llm.engines.http import HTTPEngine
from gym_llm.rollouts.run import Run


@pytest.fixture(autouse=True)
def _quick_and_keyless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(http, "BACKOFF_SECONDS", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


class CachingServer:
    """A chat server with a prefix cache of whole conversations; counts characters as tokens."""

    def __init__(self, die_after: int | None = None) -> None:
        self.die_after = die_after
        self.sessions: list[str | None] = []
        self.answered: Counter[str] = Counter()
        self._seen: set[str] = set()

    async def models(self, request: web.Request) -> web.Response:
        if self.die_after is not None and len(self.sessions) > self.die_after:
            return web.Response(status=503)
        return web.json_response({"object": "list", "data": [{"id": "m"}]})

    async def chat(self, request: web.Request) -> web.Response:
        self.sessions.append(session := request.headers.get("X-Session-ID"))
        if self.die_after is not None and len(self.sessions) > self.die_after:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        text = "".join(message["content"] for message in (await request.json())["messages"])
        cached = max((len(seen) for seen in self._seen if text.startswith(seen)), default=0)
        self._seen.add(text)
        await asyncio.sleep(0.005)
        self.answered[str(session)] += 1
        usage = {"prompt_tokens": len(text), "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}
        message = {"role": "assistant", "content": "yes"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"id": "c", "model": "m", "choices": [choice], "usage": usage})

    def routes(self) -> dict[str, Any]:
        return {"/v1/models": self.models, "/v1/chat/completions": self.chat}


def tasks(count: int) -> list[Any]:
    return [row(f"A long question, number {number}?", expected_answer="yes") for number in range(count)]


async def played(servers: list[CachingServer], **options: Any) -> list[Any]:
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(server.routes())) for server in servers]
        engine = HTTPEngine([f"{url}/v1" for url in urls], max_retries=10, **options)
        async with engine:
            rollouts = gym_llm.rollout(
                "gym_llm/FollowUp-v0", engine, tasks=tasks(12), repeats=6, concurrency=24, retries=0
            )
            return [record async for record in rollouts]


@in_loop
async def test_every_request_says_its_episode_and_groups_stay_together() -> None:
    servers = [CachingServer(), CachingServer()]
    records = await played(servers)
    assert [record["outcome"] for record in records] == ["scored"] * 72
    ids = [{str(session) for session in server.sessions} for server in servers]
    assert not ids[0] & ids[1] and len(ids[0] | ids[1]) == 72
    tasks_of = [{session.partition("-")[0] for session in each} for each in ids]
    assert not tasks_of[0] & tasks_of[1]
    assert all(len(each) >= 3 for each in tasks_of)  # and both have work


@in_loop
async def test_the_sessions_of_a_server_that_dies_move() -> None:
    servers = [CachingServer(die_after=10), CachingServer()]
    records = await played(servers)
    assert sorted(tuple(record["rollout_id"].values()) for record in records) == [
        (task, repeat) for task in range(12) for repeat in range(6)
    ]
    assert {record["outcome"] for record in records} == {"scored"}
    assert sum(servers[0].answered.values()) <= 10 and len(servers[1].answered) >= 62


@in_loop
async def test_the_header_has_another_name_or_is_left_out() -> None:
    for name in (None, "X-Other"):
        server = CachingServer()
        await played([server], session_header=name)
        assert set(server.sessions) == {None}
    for wrong in ("", "A B", "X:Y", "Content-Length", "a\r\nb", 3):
        with pytest.raises(ValueError, match="session_header"):
            HTTPEngine("http://localhost:1/v1", session_header=wrong)  # type: ignore[arg-type]


def test_a_crowded_server_does_not_keep_its_group() -> None:
    engine = HTTPEngine("http://a/v1,http://b/v1")
    homes = Counter()
    for repeat in range(100):
        server = engine.router.pick(f"0-{repeat}")
        server.in_flight += 1
        homes[server.base_url.host] += 1
    assert min(homes.values()) >= 40
    assert engine.router.pick("0-3") is engine.router.pick("0-3")


@in_loop
async def test_records_and_the_summary_say_what_was_cached() -> None:
    async with serving(CachingServer().routes()) as url:
        engine = HTTPEngine(f"{url}/v1")
        async with engine:
            with Run("gym_llm/FollowUp-v0", engine, tasks=tasks(2), repeats=3, output="a.jsonl", concurrency=1) as run:
                records = [record async for record in run.records()]
    cached = [record["response"]["usage"].get("input_tokens_details") for record in records]
    length = records[0]["response"]["usage"]["input_tokens"]
    assert cached.count({"cached_tokens": length}) >= 4
    assert run.summary.cached_tokens == sum(each["cached_tokens"] for each in cached if each) > 0
    assert run.as_dict()["cached_tokens"] == run.summary.cached_tokens
